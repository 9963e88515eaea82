(* A run that does all that the rules of fences assume, so that the theorems are about something. Three nodes, two
   attempts, one after the other.

     instant  node 1                 node 2                 node 3
           0  grants 1: 1            grants 1: 4
           1  raises to 4 for 1
           2  clear                  clear
           3                         grants 2: 7            grants 2: 7
           4  repair of 2: 7 *)
Require Import List Arith Lia.
Require Import sets quorum fence_rules fences.
Import ListNotations.

Definition key (t : token) (c : nat) : node_state := {| L := Some t; C := c |}.
Definition free (c : nat) : node_state := {| L := None; C := c |}.

Definition the_state (i : nat) (n : node) : node_state :=
  match n, i with
  | 1, 0 => free 0 | 1, 1 => key 1 1 | 1, 2 => key 1 4 | 1, 3 => free 4 | 1, 4 => free 4 | 1, _ => key 2 7
  | 2, 0 => free 3 | 2, 1 => key 1 4 | 2, 2 => key 1 4 | 2, 3 => free 4 | 2, _ => key 2 7
  | 3, 0 => free 0 | 3, 1 => free 0 | 3, 2 => free 0 | 3, 3 => free 0 | 3, _ => key 2 7
  | _, _ => free 0
  end.

Definition the_answer (i : nat) (n : node) : option (attempt * nat) :=
  match n, i with
  | 1, 0 => Some (1, 1) | 1, 1 => Some (1, 4)
  | 2, 0 => Some (1, 4) | 2, 3 => Some (2, 7)
  | 3, 3 => Some (2, 7)
  | _, _ => None
  end.

Definition the_world : world := {|
  counted := quorum [1; 2; 3];
  token_of := fun a => a;
  start := fun a => match a with 1 => 0 | _ => 3 end;
  success := fun a => match a with 1 => 2 | _ => 4 end;
  state := the_state;
  answer := the_answer
|}.

Lemma the_world_is_lawful : lawful the_world.
Proof.
  constructor.
  - intros i n. unfold the_world, the_state, the_answer, key, free. simpl.
    destruct n as [| [| [| [| n]]]]; [apply nothing | | | | apply nothing].
    + destruct i as [| [| [| [| [| i]]]]]; simpl.
      * apply (grant the_world 0 1). lia.
      * apply (raise the_world 1 1). lia.
      * apply clear.
      * apply nothing.
      * apply (repair the_world 4 2 4 7). simpl. lia.
      * apply nothing.
    + destruct i as [| [| [| [| i]]]]; simpl.
      * apply (grant the_world 0 1). lia.
      * apply nothing.
      * apply clear.
      * apply (grant the_world 3 2). lia.
      * apply nothing.
    + destruct i as [| [| [| [| i]]]]; simpl; try apply nothing. apply (grant the_world 3 2). lia.
  - simpl. auto.
  - intros a n. simpl. destruct a as [| [| a]]; destruct n as [| [| [| [| n]]]]; simpl; discriminate.
Qed.

Lemma first_has_4 : has_numbers the_world 1 3 4.
Proof.
  exists [1; 2]. split.
  - repeat split; simpl; auto; try (intros n; simpl; lia). repeat constructor; simpl; lia.
  - intros n [<- | [<- | []]]; [exists 0, 1 | exists 0, 0]; simpl; repeat split; auto; try lia; intros m Hm.
    replace m with 1 by lia. reflexivity.
Qed.

Lemma second_has_5_6_7 : has_numbers the_world 2 4 7.
Proof.
  exists [2; 3]. split.
  - repeat split; simpl; auto; try (intros n; simpl; lia). repeat constructor; simpl; lia.
  - intros n [<- | [<- | []]]; exists 3, 3; simpl; repeat split; auto; try lia.
Qed.

Lemma fence_of_numbers : forall a base f, has_numbers the_world a base f -> has_fence the_world a f.
Proof.
  intros a base f [q [Q H]]. exists q. split; auto. intros n Hn.
  destruct (H n Hn) as [g [i [Sg [Gi [E [A _]]]]]]. exists i. repeat split; auto. lia.
Qed.

(* All assumptions at once, two locks one after the other, and what the theorems say of them. *)
Theorem fences_have_a_run :
  lawful the_world /\ any_two_meet (counted the_world) /\
  has_fence the_world 1 4 /\ has_fence the_world 2 7 /\ success the_world 1 <= start the_world 2 /\
  has_numbers the_world 1 3 4 /\ has_numbers the_world 2 4 7 /\
  fences_unique the_world /\ fences_in_order the_world /\
  fence_is_number the_world /\ numbers_unique the_world /\ numbers_in_order the_world.
Proof.
  pose proof the_world_is_lawful as W.
  assert (M : any_two_meet (counted the_world)) by apply (quorums_meet [1; 2; 3]).
  split; [exact W |]. split; [exact M |].
  split; [apply (fence_of_numbers 1 3 4 first_has_4) |]. split; [apply (fence_of_numbers 2 4 7 second_has_5_6_7) |].
  split; [simpl; lia |]. split; [apply first_has_4 |]. split; [apply second_has_5_6_7 |].
  split; [apply fences_are_unique; auto |]. split; [apply fences_are_in_order; auto |].
  split; [apply a_fence_is_a_number; auto |]. split; [apply numbers_are_unique | apply numbers_are_in_order]; auto.
Qed.
