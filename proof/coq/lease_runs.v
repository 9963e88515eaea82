(* How a run is written down: for each node a list of what happens to it. For lease_witness.v, and for the folder
   opposite, which has runs under rules that are broken. *)
Require Import List Arith Reals Lra.
Require Import sets lease_rules.
Import ListNotations.
Local Open Scope R_scope.

(* The time, the answer, and the state after it. *)
Definition script := list (R * option (lock * R * R) * node_state).

Definition nothing_yet : node_state := {| entries := fun _ => None; past := whole |}.

Fixpoint time_of (last : R) (s : script) (k : nat) : R :=
  match s with
  | [] => last
  | (t, _, _) :: rest => match k with O => t | S k => time_of t rest k end
  end.

Fixpoint answer_of (s : script) (k : nat) : option (lock * R * R) :=
  match s with
  | [] => None
  | (_, said, _) :: rest => match k with O => said | S k => answer_of rest k end
  end.

Fixpoint state_of (last : node_state) (s : script) (k : nat) : node_state :=
  match s with
  | [] => last
  | (_, _, next) :: rest => match k with O => last | S k => state_of next rest k end
  end.

(* One node, the node 1, is a whole set. Locks 1, 2 and so on begin at 0, have a ttl of 10 and, unless something else is
   said, are never released and not shared. Clocks show the real time, so that no drift is needed. *)
Definition one_node (s : script) : world := {|
  counted := fun q => q = [1%nat];
  shared := fun _ => False;
  begun := fun _ => 0;
  success := fun _ => 1;
  released := fun _ => None;
  ttl := fun _ => 10;
  factor := 0; margin := 0; client_rate := 0; node_rate := 0;
  client_clock := fun _ t => t;
  node_clock := fun _ t => t;
  time := fun n => time_of 0 (if Nat.eqb n 1 then s else []);
  state := fun n => state_of nothing_yet (if Nat.eqb n 1 then s else []);
  answer := fun n => answer_of (if Nat.eqb n 1 then s else [])
|}.

Lemma one_node_meets : any_two_meet (fun q => q = [1%nat]).
Proof. intros p q -> ->. exists 1%nat. simpl. auto. Qed.
