(* Lock 1 is granted at 0. An extension of lock 2, whose key has gone, creates it at 1. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, Some (2%nat, 0, 10), gives (gives nothing_yet 1 10) 2 11)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| k]]; simpl.
    + by rule grant.
    + by rule (extend _ _ _ 2 0 10 0 11). left. reflexivity.
    + apply nothing.
  - both_at (2) ltac:(believed_by 0%nat 0) ltac:(believed_by 1%nat 0).
Qed.
