(* Attempt 1 is granted 1 by the nodes 2 and 3, so it has the number 1. Attempt 2 is granted 2 by the nodes 1 and 2,
   which had the counters 0 and 1. The smallest is 0: it takes the numbers 1 and 2. *)
Definition on_1 : script :=
  [(None, free 0); (None, free 0); (Some (2, 2), key 2 2)].
Definition on_2 : script :=
  [(Some (1, 1), key 1 1); (None, free 1); (Some (2, 2), key 2 2)].
Definition on_3 : script :=
  [(Some (1, 1), key 1 1)].

Theorem opposite : breaks numbers_unique (three_nodes (each 1 3 9) on_1 on_2 on_3).
Proof.
  begin_run.
  - destruct i as [| [| [| i]]]; simpl; try apply nothing.
    + by rule (grant _ _ 2 0 2).
  - destruct i as [| [| [| i]]]; simpl; try apply nothing.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 2 1 2).
  - destruct i as [| i]; simpl; try apply nothing.
    + by rule (grant _ _ 1 0 1).
  - intro X. specialize (X 1 2 0 1 0 2 1). discriminate X; try lia.
    + exists [2; 3]. split; [split; [repeat constructor; simpl; lia | split; [intros n; simpl; lia | simpl; auto]] |].
      intros n [<- | [<- | []]]; exists 0, 0; simpl; repeat split; auto; lia.
    + exists [1; 2]. split; [split; [repeat constructor; simpl; lia | split; [intros n; simpl; lia | simpl; auto]] |].
      intros n [<- | [<- | []]]; exists 2, 2; simpl; repeat split; auto; lia.
Qed.
