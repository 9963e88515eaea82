(* Nodes, quorums, and sets of nodes that change: what the words mean. quorum.v proves what follows from it.

     need         internal/lease/verdict.go: Need
     quorum       internal/lease/verdict.go: decideLock, internal/lease/verdict.go: decideExtend
     of_either    each client has its own set: redlock/redlock.go: New *)
Require Import List Arith.
Import ListNotations.

(* Nodes have names. Numbers do for names. *)
Definition node := nat.
Bind Scope nat_scope with node.

(* How many of n nodes are needed. *)
Definition need (n : nat) : nat := n / 2 + 1.

(* q is a quorum of a set of nodes: different nodes, of this set, and enough of them. *)
Definition quorum (set q : list node) : Prop :=
  NoDup q /\
  incl q set /\
  need (length set) <= length q.

(* The larger set has one node more than the smaller one, and the rest in common. *)
Definition neighbours (small large : list node) : Prop :=
  incl small large /\
  length large = length small + 1.

Definition meet (p q : list node) : Prop := exists n, In n p /\ In n q.

(* All that the proofs of fences and of leases use about quorums. "Counted" are those that some client counts as one. *)
Definition any_two_meet (counted : list node -> Prop) : Prop := forall p q, counted p -> counted q -> meet p q.

(* What clients count while a set is changed by one node: each counts by its own set. *)
Definition of_either (small large q : list node) : Prop := quorum small q \/ quorum large q.
