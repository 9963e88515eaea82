(* The node is repaired for lock 1 at 0, with a ttl of 1. Then the request of its attempt is answered yes, and counts
   for a ttl of 10. The key expires at 1, and lock 2 is granted. *)
Definition events : script := [
  (0, Some (1%nat, 0, 1), gives nothing_yet 1 1);
  (1 / 2, Some (1%nat, 0, 10), gives nothing_yet 1 1);
  (1, None, takes (gives nothing_yet 1 1) 1);
  (1, Some (2%nat, 0, 10), gives (takes (gives nothing_yet 1 1) 1) 2 11)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| [| [| k]]]]; simpl.
    + by rule repair.
    + by rule again.
    + by rule expire.
    + by rule grant.
    + apply nothing.
  - both_at (2) ltac:(believed_by 1%nat 0) ltac:(believed_by 3%nat 0).
Qed.
