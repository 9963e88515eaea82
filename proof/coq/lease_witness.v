(* A run that does all that the rules of leases assume, with a loss and quarantine, so that the theorem is about
   something. Three nodes, two locks, one after the other, for a ttl of 10.

     node 1   0 grants 1    0.5 the same request again   2 extends 1    12 lock 1 is released
     node 2   0 grants 1    2 extends 1     3 loses everything    4 is seen    14 grants 2, after the quarantine
     node 3   2.5 is repaired for 1         13 the key of 1 expires            14 grants 2

   Nodes' clocks are half a percent too fast, and show different times. Clients' clocks are half a percent too slow. *)
Require Import List Arith Rbase Lra.
Require Import sets quorum lease_rules lease lease_runs.
Import ListNotations.
Local Open Scope R_scope.

Definition the_node_clock (n : node) (t : R) : R := INR n * 1000 + t * (201 / 200).

(* The state of a node that has the lock a until 10 after the time t, and after what was before. *)
Definition has (st : node_state) (n : node) (a : lock) (t : R) : node_state :=
  put st a (Some (the_node_clock n t + 10)).

Definition without (st : node_state) (a : lock) : node_state := put st a None.

Definition empty_since (p : memory) : node_state := {| entries := fun _ => None; past := p |}.

Definition on_node_1 : script :=
  let granted := has nothing_yet 1 1 0 in
  let extended := has granted 1 1 2 in
  [(0, Some (1%nat, 0, 10), granted); (1 / 2, Some (1%nat, 0, 10), granted); (2, Some (1%nat, 2, 10), extended);
   (12, None, without extended 1)].

Definition on_node_2 : script :=
  let granted := has nothing_yet 2 1 0 in
  let extended := has granted 2 1 2 in
  let is_seen := empty_since (seen (the_node_clock 2 4)) in
  [(0, Some (1%nat, 0, 10), granted); (2, Some (1%nat, 2, 10), extended);
   (3, None, empty_since lost); (4, None, is_seen); (14, Some (2%nat, 14, 10), has is_seen 2 2 14)].

Definition on_node_3 : script :=
  let repaired := has nothing_yet 3 1 (5 / 2) in
  let expired := without repaired 1 in
  [(5 / 2, Some (1%nat, 2, 10), repaired); (13, None, expired); (14, Some (2%nat, 14, 10), has expired 3 2 14)].

Definition on_node (n : node) : script :=
  match n with 1 => on_node_1 | 2 => on_node_2 | 3 => on_node_3 | _ => [] end%nat.

Definition the_world : world := {|
  counted := quorum [1; 2; 3]%nat;
  shared := fun _ => False;
  begun := fun a => match a with 1%nat => 0 | _ => 14 end;
  success := fun a => match a with 1%nat => 1 | _ => 15 end;
  released := fun a => match a with 1%nat => Some 12 | _ => None end;
  ttl := fun _ => 10;
  factor := 1 / 100; margin := 2 / 1000; client_rate := 1 / 200; node_rate := 1 / 200;
  client_clock := fun a t => t * (199 / 200);
  node_clock := the_node_clock;
  time := fun n => time_of 0 (on_node n);
  state := fun n => state_of nothing_yet (on_node n);
  answer := fun n => answer_of (on_node n)
|}.

(* Whether there is room, on a node that has nothing. *)
Ltac nobody := intros b e X; simpl in X; repeat destruct (Nat.eq_dec _ _) in X; discriminate.

(* What a rule asks for: a fact about times, about clocks, or that there is room. *)
Ltac as_the_rule_asks :=
  simpl; try reflexivity; try exact I; try lra; try (unfold the_node_clock; simpl; lra); try discriminate;
  try nobody; try (unfold has_let_go; simpl; lra).

Lemma the_world_is_lawful : lawful the_world.
Proof.
  constructor; simpl; try lra.
  - intros n k. destruct n as [| [| [| [| n]]]]; [apply nothing | | | | apply nothing].
    + destruct k as [| [| [| [| k]]]].
      * apply (grant the_world 1 0 1); as_the_rule_asks.
      * eapply (again the_world 1 1 1); as_the_rule_asks.
      * eapply (extend the_world 1 2 1 2 10); as_the_rule_asks.
      * apply (release the_world 1 3 1 None); as_the_rule_asks.
      * apply nothing.
    + destruct k as [| [| [| [| [| k]]]]].
      * apply (grant the_world 2 0 1); as_the_rule_asks.
      * eapply (extend the_world 2 1 1 2 10); as_the_rule_asks.
      * apply (lose the_world 2 2); as_the_rule_asks.
      * apply (look the_world 2 3 (empty_since lost)). reflexivity.
      * apply (grant the_world 2 4 2); as_the_rule_asks.
        exists 10. split; [| simpl; unfold the_node_clock; simpl; lra].
        intros [| [| [| [| [| j]]]]] l a s T _ _ A; simpl in A; inversion A; lra.
      * apply nothing.
    + destruct k as [| [| [| k]]].
      * apply (repair the_world 3 0 1 2 10); as_the_rule_asks.
      * eapply (expire the_world 3 1 1); as_the_rule_asks.
      * apply (grant the_world 3 2 2); as_the_rule_asks.
      * apply nothing.
  - intros n k. destruct n as [| [| [| [| n]]]]; simpl; try lra;
      destruct k as [| [| [| [| [| k]]]]]; simpl; lra.
  - intros n a. destruct n as [| [| [| [| n]]]]; reflexivity.
  - intros n t u H. unfold the_node_clock. lra.
  - intros a t u H. lra.
Qed.

Lemma two_are_a_quorum : forall a b : nat,
  a <> b -> In a [1; 2; 3]%nat -> In b [1; 2; 3]%nat -> quorum [1; 2; 3]%nat [a; b].
Proof.
  intros a b Differ A B. repeat split.
  - repeat constructor; simpl; intuition.
  - intros n [<- | [<- | []]]; auto.
  - simpl. auto.
Qed.

(* By its extension, lock 1 lasts beyond 10. *)
Lemma first_is_believed : believes the_world 1 11.
Proof.
  split; [unfold has_let_go; simpl; lra |]. exists 2, 10, [1; 2]%nat. split; [| split].
  - apply two_are_a_quorum; simpl; auto.
  - intros n [<- | [<- | []]]; [exists 2%nat | exists 1%nat]; simpl; split; auto; lra.
  - unfold validity; simpl. lra.
Qed.

Lemma second_is_believed : believes the_world 2 15.
Proof.
  split; [unfold has_let_go; simpl; auto |]. exists 14, 10, [2; 3]%nat. split; [| split].
  - apply two_are_a_quorum; simpl; auto.
  - intros n [<- | [<- | []]]; [exists 4%nat | exists 2%nat]; simpl; split; auto; lra.
  - unfold validity; simpl. lra.
Qed.

(* All assumptions at once, two locks one after the other, a loss in between, and what the theorems say of them. *)
Theorem leases_have_a_run :
  lawful the_world /\ any_two_meet (counted the_world) /\
  believes the_world 1 11 /\ past (state the_world 2 3) = lost /\ believes the_world 2 15 /\
  leases_exclude the_world /\ locks_exclude the_world.
Proof.
  pose proof the_world_is_lawful as W.
  assert (M : any_two_meet (counted the_world)) by apply (quorums_meet [1; 2; 3]%nat).
  split; [exact W |]. split; [exact M |]. split; [apply first_is_believed |]. split; [reflexivity |].
  split; [apply second_is_believed |]. split; [apply leases_do_exclude | apply locks_do_exclude]; auto.
Qed.

(* Shared holders do hold at the same time: two locks on one node. *)
Theorem shared_holders_have_a_run : exists w,
  lawful w /\ any_two_meet (counted w) /\ believes w 1 2 /\ believes w 2 2.
Proof.
  exists (one_node (fun _ => True) at_0 never 0 0 [
    (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
    (1, Some (2%nat, 0, 10), gives (gives nothing_yet 1 10) 2 11)]).
  unfold one_node, at_0, never.
  split; [lawful_if_steps | split; [apply one_node_meets | split; [believed_by 0%nat 0 | believed_by 1%nat 0]]].
  destruct k as [| [| k]]; simpl; [by rule grant | by rule grant | apply nothing].
  intros b e _. simpl. auto.
Qed.
