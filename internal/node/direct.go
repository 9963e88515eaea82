package node

// This file is about the lock request without a script: on one resource, SET key token NX GET PX ttl does what the lock
// script does, for a third of the server's time. PTTL follows on the same connection, as a refusal should say when to
// come back, and asking only after a refusal would take a second round trip. Between the two the key may expire, or
// become another's: the answer to PTTL is a hint.
//
// A node is asked by the script instead
//   - on a connection whose server does not know NX with GET, as before Redis 7.0;
//   - once a key has held more than maxDirect: GET answers the whole value, the script a digest of it.

// maxDirect is the longest value of a key after which a node is still asked directly.
const maxDirect = 1 << 20

// A directReply is the reply to a SET whose PTTL is still to be answered.
type directReply struct {
	waits bool
	value any
	err   error
}

// take takes one of the two replies to the oldest request, a direct one. The second one completes the request: out is
// then their meaning, unless failed is an error of the server. long: the key's value is too long to be asked for again.
func (first *directReply) take(q *Request, reply any, err error, code func(error) string) (out Outcome, complete, long bool, failed error) {
	if !first.waits {
		*first = directReply{true, reply, err}
		return out, false, false, nil
	}
	said := *first
	value, failed := said.value, said.err
	*first = directReply{}
	if q.Command.Script.Deletes {
		out, failed = q.deleted(code, said, reply, err)
		return out, true, false, failed
	}
	if failed != nil {
		return out, true, false, failed
	}
	v, ok := value.([]byte)
	long = ok && len(v) > maxDirect
	left, ok := reply.(int64)
	if err != nil || !ok {
		left = -1 // Unknown counts as no expiry.
	}
	return q.Command.Script.Direct(q.Command.Args[0], value, left), true, long, nil
}
