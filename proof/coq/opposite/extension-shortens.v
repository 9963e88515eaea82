(* Lock 1 is granted at 0 for 10, and extended at 1 for 1. The key expires at 2, and lock 2 is granted. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, Some (1%nat, 1, 1), gives (gives nothing_yet 1 10) 1 2);
  (2, None, takes (gives (gives nothing_yet 1 10) 1 2) 1);
  (2, Some (2%nat, 0, 10), gives (takes (gives (gives nothing_yet 1 10) 1 2) 1) 2 12)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| [| [| k]]]]; simpl.
    + by rule grant.
    + by rule extend.
    + by rule expire.
    + by rule grant.
    + apply nothing.
  - both_at (3) ltac:(believed_by 0%nat 0) ltac:(believed_by 3%nat 0).
Qed.
