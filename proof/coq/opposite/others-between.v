(* Attempt 2 has seen the counter 0. Attempt 1 is granted 1, and then attempt 2 is granted 2: both take the 1. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (None, free 1); (Some (2, 2), key 2 2)].

Theorem opposite : breaks numbers_unique (one_node own (each 0 0 9) (each 1 3 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| i]]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 2 1 2).
    + apply nothing.
  - intro X. specialize (X 1 2 0 1 0 2 1). discriminate X; try lia.
    + exists [1]. split; [reflexivity |]. intros n [<- | []]. exists 0, 0. simpl. repeat split; auto; lia.
    + exists [1]. split; [reflexivity |]. intros n [<- | []]. exists 0, 2. simpl. repeat split; auto; lia.
Qed.
