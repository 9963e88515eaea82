(* The key of lock 1 expires at 1, and lock 2 is granted. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, None, takes (gives nothing_yet 1 10) 1);
  (1, Some (2%nat, 0, 10), gives (takes (gives nothing_yet 1 10) 1) 2 11)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| [| k]]]; simpl.
    + by rule grant.
    + by rule expire.
    + by rule grant.
    + apply nothing.
  - both_at (2) ltac:(believed_by 0%nat 0) ltac:(believed_by 2%nat 0).
Qed.
