(* The trace of docs/safety.md: A is attempt 1, and B is attempt 2. Both have the fence 2.

     instant  node 1          node 2              node 3
           0  grants A 1      grants A 1          grants B 1
           1  A's key goes                        B's key goes
           2  grants B 2      is raised to 2      grants A 2
           3                  A's key goes
           4                  grants B 3 *)
Definition on_1 : script :=
  [(Some (1, 1), key 1 1); (None, free 1); (Some (2, 2), key 2 2)].
Definition on_2 : script :=
  [(Some (1, 1), key 1 1); (None, key 1 1); (Some (1, 2), key 1 2); (None, free 2); (Some (2, 3), key 2 3)].
Definition on_3 : script :=
  [(Some (2, 1), key 2 1); (None, free 1); (Some (1, 2), key 1 2)].

Theorem opposite : breaks fences_unique (three_nodes (each 3 5 9) on_1 on_2 on_3).
Proof.
  begin_run.
  - destruct i as [| [| [| i]]]; simpl; try apply nothing.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 2 1 2).
  - destruct i as [| [| [| [| [| i]]]]]; simpl; try apply nothing.
    + by rule (grant _ _ 1 0 1).
    + by rule (raise _ _ 1 1 2).
    + by rule (clear _ _ (Some 1) 2).
    + by rule (grant _ _ 2 2 3).
  - destruct i as [| [| [| i]]]; simpl; try apply nothing.
    + by rule (grant _ _ 2 0 1).
    + by rule (clear _ _ (Some 2) 1).
    + by rule (grant _ _ 1 1 2).
  - intro X. specialize (X 1 2 2). discriminate X.
    + exists [2; 3]. split; [split; [repeat constructor; simpl; lia | split; [intros n; simpl; lia | simpl; auto]] |].
      intros n [<- | [<- | []]]; exists 2; simpl; repeat split; try lia; exists 2; auto.
    + exists [1; 2]. split; [split; [repeat constructor; simpl; lia | split; [intros n; simpl; lia | simpl; auto]] |].
      intros n [<- | [<- | []]]; [exists 2 | exists 4]; simpl; repeat split; try lia; [exists 2 | exists 3]; auto.
Qed.
