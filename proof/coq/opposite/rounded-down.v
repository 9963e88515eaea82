(* The key of lock 1 lives for 9 of the 10 that were asked for. Lock 2 is granted at 9. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 9);
  (9, None, takes (gives nothing_yet 1 9) 1);
  (9, Some (2%nat, 0, 10), gives (takes (gives nothing_yet 1 9) 1) 2 19)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| [| k]]]; simpl.
    + by rule grant.
    + by rule expire.
    + by rule grant.
    + apply nothing.
  - both_at (19 / 2) ltac:(believed_by 0%nat 0) ltac:(believed_by 2%nat 0).
Qed.
