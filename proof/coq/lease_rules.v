(* The rules of leases, and what is claimed of them: at no time do two holders believe that they have a lock, unless
   both are shared holders. lease.v proves it.

   This is about the rules and not about the code. docs/safety.md has the argument in prose ("Exclusion", "Quarantine").
   What does each step in the library:

     grant      redlock/scripts/lock.lua, redlock/scripts/queue.lua, redlock/scripts/fencedLock.lua,
                redlock/scripts/fencedQueue.lua
     again      the same scripts, when the key holds the token already
     extend     redlock/scripts/extend.lua
     repair     redlock/scripts/repair.lua, sent by redlock/extend.go: repair,
                allowed by internal/lease/lease.go: MayRepair
     expire     the server, by the life that the scripts give a key; redlock/drift.go: serverMillis
     release    redlock/scripts/unlock.lua, after internal/lease/lease.go: Unlock; of an attempt that has failed,
                internal/lease/round.go: fail
     lose       nothing in the library: docs/safety.md has a list, "What loses keys"
     look       internal/quarantine/check.lua, before each script that grants:
                internal/quarantine/scripts.lua.go: Granting
     votes      internal/quarantine/check.lua
     validity   internal/lease/drift.go: Drift, internal/lease/drift.go: Validity
     believes   internal/lease/round.go: Until, internal/lease/lease.go: Got, internal/lease/lease.go: Prolong,
                internal/lease/lease.go: Check
     client_clock  internal/lease/deadline.go: Remaining, which takes the earliest of several clocks
     counted    internal/lease/verdict.go: Need
     shared     not in the library

   The rules have one resource. A lock of several has these steps on each of them, so the claims hold for each. A lock
   is named by its token, which is fresh: an attempt that is made anew is another lock. *)
Require Import List Arith Rbase.
Require Import sets.
Local Open Scope R_scope.

Definition lock := nat.
Bind Scope nat_scope with lock.

(* What a node remembers of its past: all of it, or since when it has been seen again after a loss, by its clock. *)
Inductive memory := whole | lost | seen (since : R).

(* What a node has of the resource: for each lock None, or the end of its key by the node's clock. In the library, where
   nobody is shared, this is one key and its value is the token. *)
Record node_state := { entries : lock -> option R; past : memory }.

Definition put (st : node_state) (a : lock) (entry : option R) : node_state :=
  {| entries := fun b => if Nat.eq_dec b a then entry else entries st b; past := past st |}.

(* Everything that happens, from the outside, by real time. Step k of node n is at the time "time n k". There may be any
   number of nodes, locks and steps. *)
Record world := {
  counted : list node -> Prop;                      (* what somebody counts as a quorum *)
  shared : lock -> Prop;                            (* a shared holder's, beside which other shared ones may be *)
  begun : lock -> R;                                (* when an attempt read the clock, before its first request *)
  success : lock -> R;                              (* when it had got the lock, or failed; later votes do not count *)
  released : lock -> option R;                      (* when its holder let go, or gave up, if it ever did *)
  ttl : lock -> R;                                  (* of the lock request; an extension has one of its own *)
  factor : R;                                       (* the drift factor *)
  margin : R;                                       (* the 2 ms beside it *)
  client_rate : R;                                  (* by how much the rate of a client's clock may be wrong *)
  node_rate : R;                                    (* and that of a node's clock *)
  client_clock : lock -> R -> R;                    (* what the clock of a lock's holder shows, by real time *)
  node_clock : node -> R -> R;                      (* what a node's clock shows *)
  time : node -> nat -> R;
  state : node -> nat -> node_state;                (* before step k *)
  answer : node -> nat -> option (lock * R * R)     (* yes to a lock, in a round that began at s, for a ttl T *)
}.

(* How long a round is good for, of the ttl T. *)
Definition validity (w : world) (T : R) : R := T - (factor w * T + margin w).

(* By time t, the holder of a has let go. *)
Definition has_let_go (w : world) (a : lock) (t : R) : Prop :=
  match released w a with Some r => r <= t | None => False end.

(* Whoever has an entry, and who comes, are shared. *)
Definition room (w : world) (st : node_state) (a : lock) : Prop :=
  forall b e, entries st b = Some e -> shared w b /\ shared w a.

(* Quarantine. A node that has forgotten something grants nothing before S + M, by its own clock. S is when it was first
   seen after the loss. M is at least each ttl to which it has said yes (at j) before a loss (l); docs/safety.md says
   when that is so. A node that has lost nothing has no quarantine. *)
Definition votes (w : world) (n : node) (k : nat) (st : node_state) : Prop :=
  match past st with
  | whole => True
  | lost => False
  | seen since => exists M,
      (forall j l a s T, (j < l <= k)%nat -> past (state w n l) = lost ->
        answer w n j = Some (a, s, T) -> T <= M) /\
      since + M <= node_clock w n (time w n k)
  end.

(* Step k of node n: from a state, with an answer or without one, to a state. The life of a key is rounded up, so its
   end is not before what was asked for.

   Requests may be lost, delayed without bound, repeated and reordered: a step comes whenever its request arrives. *)
Inductive step (w : world) (n : node) (k : nat) : node_state -> option (lock * R * R) -> node_state -> Prop :=
| nothing st :
    step w n k st None st

  (* A lock request comes after its attempt has begun. It needs room. *)
| grant a e st :
    begun w a <= time w n k ->
    entries st a = None ->
    room w st a ->
    votes w n k st ->
    node_clock w n (time w n k) + ttl w a <= e ->
    step w n k st (Some (a, begun w a, ttl w a)) (put st a (Some e))

  (* A request that runs twice finds its own token, and changes nothing. Its yes counts while the attempt goes on. *)
| again a e st :
    entries st a = Some e ->
    time w n k <= success w a ->
    step w n k st (Some (a, begun w a, ttl w a)) st

  (* An extension finds its own token. It does not create a key, and does not shorten its life. *)
| extend a s T e e' st :
    s <= time w n k ->
    entries st a = Some e ->
    e <= e' ->
    node_clock w n (time w n k) + T <= e' ->
    step w n k st (Some (a, s, T)) (put st a (Some e'))

  (* A repair gives a lock the key that it has lost. It comes after the attempt's success, and needs what a grant needs.
     In the library its yes does not count. Here it may count for its own round, so this covers both. *)
| repair a s T e st :
    s <= time w n k ->
    success w a < time w n k ->
    entries st a = None ->
    room w st a ->
    votes w n k st ->
    node_clock w n (time w n k) + T <= e ->
    step w n k st (Some (a, s, T)) (put st a (Some e))

  (* A key expires when its end has passed by the node's clock, or later. *)
| expire a e st :
    entries st a = Some e ->
    e <= node_clock w n (time w n k) ->
    step w n k st None (put st a None)

  (* A release finds its own token. It deletes the key, or leaves it for a time, never for longer (min hold). Only dead
     tokens are released: those whose holder has let go. A process that releases the token of another one must know
     that this one does not go on. (The proof does not use that the time is never longer.) *)
| release a entry st :
    has_let_go w a (time w n k) ->
    (forall e', entry = Some e' -> exists e, entries st a = Some e /\ e' <= e) ->
    step w n k st None (put st a entry)

  (* The node loses data, at any moment: everything, or the latest changes. So a key is gone, or it is as it was, or the
     extension of a lock is forgotten, or the release of one: that key is there again.
     What has expired, or was lost before, does not come back. *)
| lose st st' :
    past st' = lost ->
    (forall a e', entries st' a = Some e' ->
      has_let_go w a (time w n k) \/
      exists e, entries st a = Some e /\ (e' = e \/ success w a < time w n k)) ->
    step w n k st None st'

  (* The first client after a loss asks. *)
| look st :
    past st = lost ->
    step w n k st None {| entries := entries st; past := seen (node_clock w n (time w n k)) |}.

(* What is assumed. Besides: any two quorums that are counted meet. The last theorems of lease.v have that from what
   docs/safety.md assumes, that all clients have the same nodes, or those of two neighbouring sets. *)
Record lawful (w : world) : Prop := {
  (* Nodes do these steps, one after the other, and no others. They begin empty. After a loss there is always
     quarantine. So either nodes lose no keys; or all clients use quarantine, it notices the loss, and nobody admits the
     node too early. *)
  steps : forall n k, step w n k (state w n k) (answer w n k) (state w n (S k));
  one_after_the_other : forall n k, time w n k <= time w n (S k);
  empty : forall n a, entries (state w n 0) a = None;
  (* Clocks run at bounded rates, and the drift factor is at least the rate error of a client's clock plus that of a
     node's. Nodes do not step their clocks forward, and a client's does not stand still while its machine sleeps. No
     two clocks need show the same. The library refuses a factor of 1 or more. *)
  node_not_too_fast : forall n t u, t <= u -> node_clock w n u - node_clock w n t <= (u - t) * (1 + node_rate w);
  client_not_too_slow : forall a t u, t <= u ->
    (u - t) * (1 - client_rate w) <= client_clock w a u - client_clock w a t;
  rates_not_negative : 0 <= client_rate w /\ 0 <= node_rate w /\ 0 <= margin w;
  factor_covers_rates : client_rate w + node_rate w <= factor w;
  factor_below_one : factor w < 1
}.

(* At time u the holder of a believes that it has the lock: it has not let go; in a round (of the lock, or of an
   extension) that began at s, for a ttl T, a quorum has said yes; and that was less than the validity ago, by its own
   clock. *)
Definition believes (w : world) (a : lock) (u : R) : Prop :=
  ~ has_let_go w a u /\
  exists s T q, counted w q /\
    (forall n, In n q -> exists k, time w n k <= u /\ answer w n k = Some (a, s, T)) /\
    client_clock w a u - client_clock w a s < validity w T.

(* The claims. *)

(* Who believe at the same time are shared holders. *)
Definition leases_exclude (w : world) : Prop := forall a b u,
  believes w a u -> believes w b u -> a <> b -> shared w a /\ shared w b.

(* Today's lock: nobody is shared. *)
Definition locks_exclude (w : world) : Prop := (forall a, ~ shared w a) -> forall a b u,
  believes w a u -> believes w b u -> a = b.
