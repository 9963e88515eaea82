(* Attempt 1 is granted 1. Attempt 2 is granted 2, by a request that comes twice: its second answer does not say what
   the counter was. Attempt 2 takes the 1 as well. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (None, free 1); (Some (2, 2), key 2 2); (Some (2, 2), key 2 2)].

Theorem opposite : breaks block_is_numbers (one_node own (each 0 0 9) (each 1 9 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| [| i]]]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 2 1 2).
    + by rule (again _ _ 2 2).
    + apply nothing.
  - intro X. destruct (X 2 0 2) as [q [Q H]].
    + exists [1]. split; [reflexivity |]. intros n [<- | []]. exists 3. simpl. repeat split; try lia. auto.
    + simpl in Q. subst q. destruct (H 1) as [g [i [Sg [Gi [Ei [A [Base Since]]]]]]]; [simpl; auto |].
      simpl in *. destruct g as [| g]; [| destruct g as [| [| [| g]]]; simpl in Base; lia].
      destruct i as [| [| i]]; simpl in A; try discriminate A.
      specialize (Since 1). discriminate Since. lia.
Qed.
