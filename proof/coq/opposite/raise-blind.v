(* Attempt 1 is granted 1, then attempt 2 is granted 2, then attempt 1 is granted 3, by a request that came twice. It
   raises the counter to 9, and takes all numbers up to it, the 2 as well. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (None, free 1); (Some (2, 2), key 2 2); (None, free 2); (Some (1, 3), key 1 3);
  (Some (1, 9), key 1 9)].

Theorem opposite : breaks block_is_numbers (one_node own (each 0 0 9) (each 9 9 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| [| [| [| i]]]]]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 2 1 2).
    + by rule (clear _ _ (Some 2) 2).
    + by rule (grant _ _ 1 2 3).
    + by rule (raise _ _ 1 3 9).
    + apply nothing.
  - intro X. destruct (X 1 0 9) as [q [Q H]].
    + exists [1]. split; [reflexivity |]. intros n [<- | []]. exists 5. simpl. repeat split; try lia.
      right. left. exists 0, 1. simpl. repeat split; lia.
    + simpl in Q. subst q. destruct (H 1) as [g [i [Sg [Gi [Ei [A [Base Since]]]]]]]; [simpl; auto |].
      simpl in *. destruct i as [| [| [| [| [| [| i]]]]]]; simpl in A; try discriminate A.
      destruct g as [| g]; [| destruct g as [| [| [| [| [| g]]]]]; simpl in Base; lia].
      specialize (Since 2). discriminate Since. lia.
Qed.
