(* The rules of fences, and what is claimed of them. fences.v proves the claims.

   This is about the rules and not about the code. docs/safety.md has the same rules in prose ("The rule"). What does
   each step in the library:

     grant      redlock/scripts/fencedLock.lua, redlock/scripts/fencedQueue.lua
     again      redlock/scripts/fencedLock.lua, redlock/scripts/fencedQueue.lua: when the key holds the token already
     raise      redlock/scripts/raise.lua, asked for by internal/lease/fence.go: raise
     keep       redlock/scripts/extend.lua, redlock/scripts/repair.lua: "keep the counters"
     repair     redlock/scripts/repair.lua, sent by redlock/extend.go: repair
     clear      redlock/scripts/unlock.lua; keys also expire, and are deleted or evicted
     has_fence  internal/lease/fence.go: Agreed, internal/lease/fence.go: Counts
     token_of   internal/tokens/tokens.go: New
     has_block  internal/lease/fence.go: note, internal/lease/fence.go: below; what a counter was before is answered by
                the scripts of grant and raise. internal/lease/turn.go: NewTurn, internal/lease/turn.go: Fence take the
                numbers

   The rules have one resource. A lock of several has these steps on each of them, so the claims hold for each. *)
Require Import List.
Require Import sets.

Definition attempt := nat.
Definition token := nat.

(* What a node has of the resource: the token in its key, None if there is no key, and the counter. *)
Record node_state := { L : option token; C : nat }.

(* Everything that happens, from the outside. Instants are numbers: at each, every node takes at most one step. So
   there may be any number of nodes and of attempts, and steps in any order, for any time. *)
Record world := {
  counted : list node -> Prop;                      (* what somebody counts as a quorum *)
  token_of : attempt -> token;
  start : attempt -> nat;                           (* the instant at which an attempt begins *)
  success : attempt -> nat;                         (* the instant at which it has got the lock *)
  state : nat -> node -> node_state;                (* before the step of this instant *)
  answer : nat -> node -> option (attempt * nat)    (* "your key is here, and the counter is ..." *)
}.

(* One step of one node at instant i: from a state, with an answer or without one, to a state.

   An answer may be lost, or come late: then nobody counts it. *)
Inductive step (w : world) (i : nat) : node_state -> option (attempt * nat) -> node_state -> Prop :=
| nothing s :
    step w i s None s

  (* The key is free. It becomes the attempt's, and the counter becomes larger by one, or by more. A clock's value, for
     example, is much more. (Only leases need that the key is free. The proof of fences does not use it.) *)
| grant a c c' :
    c + 1 <= c' ->
    step w i {| L := None; C := c |} (Some (a, c')) {| L := Some (token_of w a); C := c' |}

  (* A request that runs twice finds its own token, and changes nothing. *)
| again a c :
    step w i {| L := Some (token_of w a); C := c |} (Some (a, c)) {| L := Some (token_of w a); C := c |}

  (* A raise looks at the token, and never lowers the counter. *)
| raise a c f :
    c <= f ->
    step w i {| L := Some (token_of w a); C := c |} (Some (a, f)) {| L := Some (token_of w a); C := f |}

  (* An extension, or a repair of a lock that the node has, keeps the counter. *)
| keep l c f :
    step w i {| L := l; C := c |} None {| L := l; C := max c f |}

  (* A repair gives a lock the key that it has lost. It comes after the attempt's success. *)
| repair a c f :
    success w a <= i ->
    step w i {| L := None; C := c |} None {| L := Some (token_of w a); C := max c f |}

  (* The key goes at any time: released, expired, deleted, evicted. The counter stays. *)
| clear l c :
    step w i {| L := l; C := c |} None {| L := None; C := c |}.

(* What is assumed. Besides: any two quorums that are counted meet. The last theorems of fences.v have that from what
   docs/safety.md assumes, that all clients have the same nodes, or those of two neighbouring sets. Clocks, ttls and
   delays do not occur: nothing is assumed of them. *)
Record lawful (w : world) : Prop := {
  (* Nodes do these steps, and no others. In particular no node loses a counter. *)
  steps : forall i n, step w i (state w i n) (answer w i n) (state w (S i) n);
  (* Tokens are random, made for one attempt, and never used again. *)
  fresh : forall a b, token_of w a = token_of w b -> a = b;
  new : forall a n, L (state w (start w a) n) <> Some (token_of w a)
}.

(* An attempt has the fence f: a quorum has answered exactly f to it, before its success. *)
Definition has_fence (w : world) (a : attempt) (f : nat) : Prop :=
  exists q, counted w q /\ forall n, In n q -> exists i,
    start w a <= i /\ i < success w a /\
    answer w i n = Some (a, f).

(* An attempt has all the numbers above base, up to f. A lock is handed on within a process, each time with a number of
   its own, without asking the nodes.

   base is the largest counter that the counted nodes had when they granted (instant g; if g is later, the numbers are
   fewer). From then until it answered exactly f (instant i), each of them was the attempt's.

   It is tempting to let each grant reserve K numbers instead: the counter would become at least c + K. That is refused.
   Counters would run ahead of the clock that replaces a counter which was lost, and fences would go back. *)
Definition has_numbers (w : world) (a : attempt) (base f : nat) : Prop :=
  exists q, counted w q /\ forall n, In n q -> exists g i,
    start w a <= g /\ g <= i /\ i < success w a /\
    answer w i n = Some (a, f) /\
    C (state w g n) <= base /\
    (forall m, g < m <= i -> L (state w m n) = Some (token_of w a)).

(* What the library sees of that: it is not told whether the key was the attempt's all the time. It takes the numbers
   above base for its own if each counted node has answered f, and

     the answer was the grant's, and the counter had been base at most;
     or it was a raise's, which found the key and the counter as the grant had left them, and the counter had been base
     at most before that grant (instant g);
     or f alone is above base. So it is where a node does not say what the counter was: it was missing, or the request
     was a repeated one. And so it is if a raise finds another counter: somebody was granted in between.

   Nodes beyond that quorum which have answered f by then are looked at, too. That makes base larger, if anything. *)
Definition has_block (w : world) (a : attempt) (base f : nat) : Prop :=
  exists q, counted w q /\ forall n, In n q -> exists i,
    start w a <= i /\ i < success w a /\
    answer w i n = Some (a, f) /\
    (C (state w i n) <= base \/
      (exists g c, start w a <= g /\ g < i /\ C (state w g n) <= base /\ answer w g n = Some (a, c) /\
        L (state w i n) = Some (token_of w a) /\
        C (state w i n) = c) \/
      f <= base + 1).

(* The claims. *)

(* What the library takes for an attempt's numbers are such numbers. *)
Definition block_is_numbers (w : world) : Prop := forall a base f,
  has_block w a base f -> has_numbers w a base f.

(* The fence alone is such numbers: only one. So what holds for numbers holds for fences, and for both together. *)
Definition fence_is_number (w : world) : Prop := forall a f,
  has_fence w a f -> 1 <= f /\ has_numbers w a (f - 1) f.

(* No number is of two attempts. *)
Definition numbers_unique (w : world) : Prop := forall a b base f base' f' k,
  has_numbers w a base f -> has_numbers w b base' f' ->
  base < k <= f -> base' < k <= f' -> a = b.

(* All numbers of a lock that was got before another was asked for are smaller than all of the other's. *)
Definition numbers_in_order (w : world) : Prop := forall a b base f base' f' k k',
  has_numbers w a base f -> has_numbers w b base' f' -> success w a <= start w b ->
  base < k <= f -> base' < k' <= f' -> k < k'.

(* (1) of docs/safety.md: no two attempts have the same fence. *)
Definition fences_unique (w : world) : Prop := forall a b f,
  has_fence w a f -> has_fence w b f -> a = b.

(* (2) of docs/safety.md: if a was got before b was asked for, its fence is smaller. *)
Definition fences_in_order (w : world) : Prop := forall a b fa fb,
  has_fence w a fa -> has_fence w b fb -> success w a <= start w b -> fa < fb.
