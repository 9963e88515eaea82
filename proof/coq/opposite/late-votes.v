(* The node is repaired for lock 1 at 2, with a ttl of 1. A late request of its attempt, which is over, is answered
   yes, and counts for a ttl of 10. The key expires at 3, and lock 2 is granted. *)
Definition events : script := [
  (2, Some (1%nat, 2, 1), gives nothing_yet 1 3);
  (5 / 2, Some (1%nat, 0, 10), gives nothing_yet 1 3);
  (3, None, takes (gives nothing_yet 1 3) 1);
  (3, Some (2%nat, 0, 10), gives (takes (gives nothing_yet 1 3) 1) 2 13)
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
  - both_at (4) ltac:(believed_by 1%nat 0) ltac:(believed_by 3%nat 0).
Qed.
