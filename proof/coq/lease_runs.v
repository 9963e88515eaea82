(* How a run is written down: for each node a list of what happens to it. For lease_witness.v, and for
   lease_controls.txt, which has runs under rules that are broken. *)
Require Import List Arith Rbase Lra.
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

(* One node, the node 1, is a whole set. All locks have a ttl of 10, and attempts go on until 1. The node's clock is
   too fast by the rate given, and the clients' clocks show the real time. *)
Definition one_node (shared : lock -> Prop) (begun : lock -> R) (released : lock -> option R) (factor rate : R)
    (s : script) : world := {|
  counted := fun q => q = [1%nat];
  shared := shared; begun := begun; success := fun _ => 1; released := released; ttl := fun _ => 10;
  factor := factor; margin := 0; client_rate := 0; node_rate := rate;
  client_clock := fun _ t => t;
  node_clock := fun _ t => t * (1 + rate);
  time := fun n => time_of 0 (if Nat.eqb n 1 then s else []);
  state := fun n => state_of nothing_yet (if Nat.eqb n 1 then s else []);
  answer := fun n => answer_of (if Nat.eqb n 1 then s else [])
|}.

(* In most of them nobody is shared, all attempts begin at 0, nothing is released, and clocks are right. *)
Definition nobody : lock -> Prop := fun _ => False.
Definition at_0 : lock -> R := fun _ => 0.
Definition never : lock -> option R := fun _ => None.
Definition plain (s : script) : world := one_node nobody at_0 never 0 0 s.

Definition gives (st : node_state) (a : lock) (e : R) : node_state := put st a (Some e).
Definition takes (st : node_state) (a : lock) : node_state := put st a None.
Definition forgets (p : memory) : node_state := {| entries := fun _ => None; past := p |}.

(* What a rule asks for: a fact about times or clocks, or that a key is there or not. *)
Ltac fact :=
  simpl; unfold has_let_go, votes; simpl;
  first [exact I | reflexivity | lra | discriminate | assumption | (split; [discriminate | lra])
    | (intros ? ? X; simpl in X; repeat destruct (Nat.eq_dec _ _) in X; discriminate)].

Tactic Notation "by" "rule" uconstr(r) := first [eapply r | refine (r _)]; try fact.

(* All assumptions but the first one, which is about steps. That one is left, for node 1. *)
Ltac lawful_if_steps :=
  constructor; simpl; try lra; try exact I;
  [ intros n k; destruct (Nat.eq_dec n 1) as [-> | N];
    [simpl | rewrite (proj2 (Nat.eqb_neq n 1) N); apply nothing]
  | intros n k; destruct (Nat.eqb n 1); simpl; [| lra];
    repeat (destruct k as [| k]; [simpl; lra |]; simpl); try lra
  | intros n a; destruct (Nat.eqb n 1); reflexivity
  | try (intros; lra) .. ].

(* Step k says so, and the round began at s. *)
Ltac believed_by k s :=
  split; [unfold has_let_go; simpl; first [lra | auto] |];
  exists s, 10, [1%nat]; split; [reflexivity |]; split;
  [intros n [<- | []]; exists k%nat; simpl; split; [lra | reflexivity] | unfold validity; simpl; lra].

Lemma one_node_meets : any_two_meet (fun q => q = [1%nat]).
Proof. intros p q -> ->. exists 1%nat. simpl. auto. Qed.

(* What a run under broken rules shows: all that is assumed holds, and two believe at a time who are not both shared. *)
Definition breaks (w : world) : Prop := any_two_meet (counted w) /\ lawful w /\ ~ leases_exclude w.

Ltac begin_run :=
  unfold breaks, plain, one_node, nobody, at_0, never; split; [apply one_node_meets |]; split;
  [lawful_if_steps |].

(* Locks 1 and 2 are both believed at u. *)
Ltac both_at u one two :=
  let X := fresh "X" in
  intro X; destruct (X 1%nat 2%nat u); simpl in *; try contradiction; try discriminate; [one | two | try lra ..].
