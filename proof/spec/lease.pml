/*
 * Redlock's lease in time, for the model checker Spin, which looks at every state that this can get into:
 *
 *     spin -a lease.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000
 *
 * It checks the rules and not the code: each rule and each step names what does it in the code, and a test replays
 * what the broken rules lead to against the library. make spec also breaks each rule; traces.md has what follows.
 *
 * There are N nodes, and C clients that want one resource. A client makes one attempt, and its number is the token of
 * that attempt: another attempt would be another client.
 *
 * Time is ideal, in ticks. Nobody can read it: clients and nodes measure spans with clocks of their own, of bounded
 * rates. All spans here only count down, in ideal time, and are taken at their worst: a node keeps a key for LIFE at
 * least, and whether it then expires now, later or never is left open. A client believes for BELIEF at most.
 *
 * Anything may wait for ever between any two steps: that is a pause, a delay, a loss or a crash of a client. What was
 * once sent may arrive at any later time, in any order, and any number of times. A node may lose its keys at any
 * moment, by a restart; then it is in quarantine.
 */
#ifndef N
#define N 3                              /* nodes, at most 5 */
#endif
#ifndef C
#define C 2                              /* clients */
#endif
#ifndef TTL
#define TTL 4                            /* as a clock shows it */
#endif
#define RATE 1                           /* A clock shows TTL after TTL - RATE to TTL + RATE of ideal time. */

#define NOBODY 0
#define BIT(n) (1 << (n))
#define COUNT(s) (((s) & 1) + ((s) >> 1 & 1) + ((s) >> 2 & 1) + ((s) >> 3 & 1) + ((s) >> 4 & 1))
#define MAX(a, b) (a > b -> a : b)

/* The rules. */
#define DRIFT (2 * RATE)                 /* comes off the ttl, for two clocks; internal/lease/drift.go: Drift, Validity */
#define QUORUM (N / 2 + 1)               /* internal/lease/verdict.go: Need */
#define QUARANTINE BELIEF                /* at least; internal/quarantine/check.lua */
#define MAY_LOCK (FREE_OR_OWN && quarantine[n] == 0)
#define MAY_REPAIR (FREE_OR_OWN && quarantine[n] == 0)
#define MAY_EXTEND (key[n] == c)
#define MAY_RELEASE (key[n] == c)
#define PROLONGED(left, more) MAX(left, more)   /* An extension never makes a key's life shorter. */
#define START_IS_LATE false              /* It is read before the first request, not after the answers. */
#define FROM_ITS_END false               /* Nor does an extension count from its answers. */
#define MAY_BE_LATE false                /* It counts only if it is decided before the old Until. */
#define FREE_OR_OWN (key[n] == NOBODY || key[n] == c)
/* Here make spec replaces a rule by a broken one. */

#define LIFE (TTL - RATE)                /* of a key, at least */
#define BELIEF (TTL - DRIFT + RATE)      /* of a client in its lock, at most: until = start + ttl - drift */

/* The nodes. */
byte key[N];                             /* whose token */
byte safe[N];                            /* for so long the key cannot expire */
byte quarantine[N];                      /* for so long the node grants nothing */

/* The clients, from 1 on. */
mtype = { idle, asking, held, over };
mtype state[C + 1] = idle;
byte left[C + 1];                        /* the time to Until */
byte said[C + 1];                        /* the nodes that have said yes */
byte left2[C + 1];                       /* both, for an extension under way */
byte said2[C + 1];
bit brief[C + 1];                        /* that one has a ttl which is good for one tick only */
bit prolonged[C + 1];                    /* It has had an extension. */
bit robbed[C + 1];                       /* Another one has got the lock since. */

byte i;

/* What must be, whenever c gets the lock or has it extended. */
inline check(c) {
    i = 1;
    do
    :: i > C -> break
    :: else ->
        if
        :: i != c && state[i] == held ->
            assert(left[i] == 0);        /* No two believe at a time. */
            robbed[i] = 1
        :: else
        fi;
        i++
    od;
    assert(!robbed[c]);                  /* A lock that is extended was never another's in between. */
    i = 0
}

inline end(c) {
    state[c] = over; left[c] = 0; said[c] = 0; left2[c] = 0; said2[c] = 0; brief[c] = 0; prolonged[c] = 0;
    robbed[c] = 0
}

proctype client(byte c) {
    do
    /* It reads its clock, then sends; redlock/acquisition.go: claimed; redlock/round.go: ask */
    :: d_step { state[c] == idle && (c == 1 || state[c - 1] != idle) ->
        state[c] = asking; left[c] = BELIEF;
        printf("client %d asks for the lock\n", c) }

    /* A quorum has granted before Until; internal/lease/verdict.go: decideLock; internal/lease/round.go: worth */
    :: d_step { state[c] == asking && COUNT(said[c]) >= QUORUM && (left[c] > 0 || START_IS_LATE) ->
        state[c] = held; said[c] = 0; left[c] = (START_IS_LATE -> BELIEF : left[c]);
        printf("client %d has the lock, ticks left: %d at most\n", c, left[c]);
        check(c) }

    /* A later extension takes the place of an earlier one; redlock/extend.go: extendNow */
    :: d_step { state[c] == held && left[c] > 0 ->
        left2[c] = BELIEF; said2[c] = 0; brief[c] = 0;
        printf("client %d asks for an extension\n", c) }
    :: d_step { state[c] == held && left[c] > 0 ->
        left2[c] = 1; said2[c] = 0; brief[c] = 1;
        printf("client %d asks for a brief extension\n", c) }

    /* internal/lease/lease.go: Prolong; internal/lease/verdict.go: decideExtend; internal/lease/round.go: worth */
    :: d_step { state[c] == held && COUNT(said2[c]) >= QUORUM && left2[c] > 0 && (left[c] > 0 || MAY_BE_LATE) ->
        left2[c] = (FROM_ITS_END && !brief[c] -> BELIEF : left2[c]);
        left[c] = MAX(left[c], left2[c]);
        left2[c] = 0; said2[c] = 0; brief[c] = 0; prolonged[c] = 1;
        printf("client %d has the extension, ticks left: %d at most\n", c, left[c]);
        check(c) }

    /* It gives up, or unlocks; internal/lease/round.go: fail; redlock/unlock.go: unlock */
    :: d_step { state[c] == asking || state[c] == held ->
        end(c);
        printf("client %d ends\n", c) }
    od
}

/* The messages of client c to node n, each of which arrives at any time after it was sent, also again. Each script is
 * one step. A message that is refused changes nothing here. */
proctype link(byte c; byte n) {
    do
    /* redlock/scripts/lock.lua; internal/link/command.go: directArgs (a SET that does the same) */
    :: d_step { state[c] != idle && MAY_LOCK ->
        printf("client %d's lock request reaches node %d\n", c, n + 1);
        safe[n] = (key[n] == NOBODY -> LIFE : safe[n]); key[n] = c;
        said[c] = (state[c] == asking -> said[c] | BIT(n) : 0) }

    /* Sent after an extension; what is late of it does what a late lock request does.
       redlock/scripts/repair.lua; redlock/extend.go: repair; internal/lease/lease.go: MayRepair */
    :: d_step { state[c] == held && prolonged[c] && MAY_REPAIR && key[n] != c ->
        printf("client %d's repair reaches node %d\n", c, n + 1);
        safe[n] = LIFE; key[n] = c }

    /* After its round it can only prolong a key's life; redlock/scripts/extend.lua */
    :: d_step { left2[c] > 0 && MAY_EXTEND ->
        printf("client %d's extension reaches node %d\n", c, n + 1);
        safe[n] = (brief[c] -> PROLONGED(safe[n], 1) : LIFE); key[n] = c;
        said2[c] = said2[c] | BIT(n) }

    /* redlock/scripts/unlock.lua */
    :: d_step { state[c] == over && MAY_RELEASE ->
        printf("client %d's release reaches node %d\n", c, n + 1);
        key[n] = NOBODY; safe[n] = 0 }
    od
}

proctype node(byte n) {
    do
    :: d_step { key[n] != NOBODY && safe[n] == 0 ->
        key[n] = NOBODY;
        printf("the key of node %d expires\n", n + 1) }
    :: d_step { true ->
        key[n] = NOBODY; safe[n] = 0; quarantine[n] = QUARANTINE;
        printf("node %d restarts without its data\n", n + 1) }
#ifdef KEEP
    :: d_step { true ->
        quarantine[n] = QUARANTINE;
        printf("node %d restarts with its data\n", n + 1) }
#endif
    od
}

#define down(x) x = (x > 0 -> x - 1 : 0)

proctype time() {
    do
    :: d_step {
        printf("a tick passes\n");
        for (i : 0 .. N - 1) { down(safe[i]); down(quarantine[i]) }
        for (i : 1 .. C) {
            down(left[i]); down(left2[i]);
            if
            :: left2[i] == 0 -> said2[i] = 0; brief[i] = 0
            :: else
            fi;
            if                           /* What cannot go on is over: that makes fewer states. */
            :: left[i] == 0 && (state[i] == held && left2[i] == 0 || state[i] == asking && !START_IS_LATE) -> end(i)
            :: else
            fi
        }
        i = 0 }
    od
}

init {
    byte c, n;
    atomic {
        for (c : 1 .. C) {
            run client(c);
            for (n : 0 .. N - 1) { run link(c, n) }
        }
        for (n : 0 .. N - 1) { run node(n) }
        run time();
        c = 0; n = 0
    }
}
