(* The holder of lock 1 lets go at 1, and its key is deleted. Lock 2 is granted. The first holder believes for 1 more.
   *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, None, takes (gives nothing_yet 1 10) 1);
  (1, Some (2%nat, 0, 10), gives (takes (gives nothing_yet 1 10) 1) 2 11)
].

Theorem opposite : breaks (one_node nobody at_0 (fun a => match a with 1%nat => Some 1 | _ => None end) 0 0 events).
Proof.
  begin_run.
  - destruct k as [| [| [| k]]]; simpl.
    + by rule grant.
    + by rule (release _ _ _ 1 None).
    + by rule grant.
    + apply nothing.
  - both_at (3 / 2) ltac:(believed_by 0%nat 0) ltac:(believed_by 2%nat 0).
Qed.
