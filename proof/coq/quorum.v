(* Two quorums meet: those of one set of nodes, and those of two neighbouring sets. Those of sets that are two steps
   apart need not. *)
Require Import List Arith Lia.
Require Import sets.
Import ListNotations.

(* Lists without a common node make one list in which no node is twice. *)
Lemma apart_is_one_list : forall p q : list node, NoDup p -> NoDup q -> ~ meet p q -> NoDup (p ++ q).
Proof.
  induction p as [|n p IH]; simpl; intros q Hp Hq Apart; auto.
  inversion Hp; subst. constructor.
  - rewrite in_app_iff. intros [In_p | In_q]; auto. apply Apart. exists n. simpl. auto.
  - apply IH; auto. intros [m [Mp Mq]]. apply Apart. exists m. simpl. auto.
Qed.

(* Two lists of different nodes have a common one, if they have more nodes together than there are. *)
Lemma too_many_meet : forall all p q : list node,
  NoDup p -> NoDup q -> incl p all -> incl q all -> length all < length p + length q -> meet p q.
Proof.
  intros all p q Hp Hq Ip Iq Many.
  destruct (Exists_dec (fun n => In n q) p) as [E | E].
  - intro n. apply in_dec. apply Nat.eq_dec.
  - apply Exists_exists in E. exact E.
  - exfalso. assert (length (p ++ q) <= length all).
    { apply NoDup_incl_length; [| apply incl_app; auto].
      apply apart_is_one_list; auto. intros [n [Np Nq]]. apply E. apply Exists_exists. exists n. auto. }
    rewrite app_length in H. lia.
Qed.

(* Two times the need of n nodes is more than n. *)
Lemma need_is_more_than_half : forall n, n < need n + need n.
Proof.
  intro n. unfold need. pose proof (Nat.div_mod n 2 ltac:(lia)). pose proof (Nat.mod_upper_bound n 2 ltac:(lia)). lia.
Qed.

(* The needs of n and of n + 1 nodes together are n + 2. *)
Lemma needs_of_neighbours : forall n, need n + need (n + 1) = n + 2.
Proof.
  intro n. unfold need. pose proof (Nat.div_mod n 2 ltac:(lia)). pose proof (Nat.mod_upper_bound n 2 ltac:(lia)).
  pose proof (Nat.div_mod (n + 1) 2 ltac:(lia)). pose proof (Nat.mod_upper_bound (n + 1) 2 ltac:(lia)). lia.
Qed.

(* MAIN: two quorums of one set meet, for any number of nodes. *)
Theorem quorums_meet : forall set, any_two_meet (quorum set).
Proof.
  intros set p q [Np [Ip Lp]] [Nq [Iq Lq]]. apply (too_many_meet set); auto.
  pose proof (need_is_more_than_half (length set)). lia.
Qed.

(* MAIN: a quorum of a set and one of its neighbour meet. *)
Theorem neighbours_meet : forall small large p q,
  neighbours small large -> quorum small p -> quorum large q -> meet p q.
Proof.
  intros small large p q [Inc Len] [Np [Ip Lp]] [Nq [Iq Lq]]. apply (too_many_meet large); auto.
  - intros n Hn. apply Inc. apply Ip. exact Hn.
  - pose proof (needs_of_neighbours (length small)). rewrite Len in *. lia.
Qed.

(* Both in one: whatever clients of two neighbouring sets count, any two of it meet. *)
Theorem quorums_of_either_meet : forall small large, neighbours small large -> any_two_meet (of_either small large).
Proof.
  intros small large N p q [P | P] [Q | Q].
  - apply (quorums_meet small); auto.
  - apply (neighbours_meet small large); auto.
  - destruct (neighbours_meet small large q p N Q P) as [n [A B]]. exists n. auto.
  - apply (quorums_meet large); auto.
Qed.

(* MAIN: two steps are too many. From the nodes 1, 2, 3 node 4 is added, then node 1 is taken away. *)
Theorem two_steps_are_apart :
  neighbours [1; 2; 3] [1; 2; 3; 4] /\ neighbours [2; 3; 4] [1; 2; 3; 4] /\
  quorum [1; 2; 3] [1; 2] /\ quorum [2; 3; 4] [3; 4] /\ ~ meet [1; 2] [3; 4].
Proof.
  unfold neighbours, quorum, meet. repeat split; simpl; auto; try (intros n; simpl; lia).
  1, 2: repeat constructor; simpl; lia.
  intros [n [A B]]. simpl in *. lia.
Qed.

(* The same where nodes are only added, 4 and then 5. *)
Theorem two_more_are_apart :
  neighbours [1; 2; 3] [1; 2; 3; 4] /\ neighbours [1; 2; 3; 4] [1; 2; 3; 4; 5] /\
  quorum [1; 2; 3] [1; 2] /\ quorum [1; 2; 3; 4; 5] [3; 4; 5] /\ ~ meet [1; 2] [3; 4; 5].
Proof.
  unfold neighbours, quorum, meet. repeat split; simpl; auto; try (intros n; simpl; lia).
  1, 2: repeat constructor; simpl; lia.
  intros [n [A B]]. simpl in *. lia.
Qed.
