(* The node loses everything at 1, and lock 2 is granted at 2. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, None, forgets lost);
  (2, Some (2%nat, 0, 10), gives (forgets lost) 2 12)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| [| k]]]; simpl.
    + by rule grant.
    + by rule lose.
    + by rule grant.
    + apply nothing.
  - both_at (3) ltac:(believed_by 0%nat 0) ltac:(believed_by 2%nat 0).
Qed.
