// Package dial makes nodes from another client library's settings of a server. It is for code that connects a client
// library with this one. For go-redis, rueidis and valkey-go, there are modules in integrations/. Without another
// library, use [redlock.NewNode].
//
// A node has connections of its own, as another library's pool cannot serve it: redlock pipelines its scripts, and cuts
// off a connection at once when it is given up, so that nothing arrives late.
//
//	node := dial.Server{
//		Address: "10.0.0.1:6379",
//		Dial: func(ctx context.Context) (net.Conn, error) {
//			return new(net.Dialer).DialContext(ctx, "tcp", "10.0.0.1:6379")
//		},
//		Credentials: func(context.Context, net.Addr) (user, password string, err error) {
//			return "locks", "secret", nil
//		},
//	}.Node()
package dial
