(* Lock 1 is granted at 0, and the node is repaired for lock 2 at 2. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (2, Some (2%nat, 0, 10), gives (gives nothing_yet 1 10) 2 12)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| k]]; simpl.
    + by rule grant.
    + by rule repair.
    + apply nothing.
  - both_at (3) ltac:(believed_by 0%nat 0) ltac:(believed_by 1%nat 0).
Qed.
