(* The node loses everything at 1, and is seen at 2. It abstains for 1, although it has granted a lock for 10. Lock 2
   is granted at 3. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, None, forgets lost);
  (2, None, forgets (seen (2 * (1 + 0))));
  (3, Some (2%nat, 0, 10), gives (forgets (seen (2 * (1 + 0)))) 2 13)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| [| [| k]]]]; simpl.
    + by rule grant.
    + by rule lose.
    + by rule (look _ _ _ (forgets lost)).
    + by rule grant. exists 1. split; [intros; lra | simpl; lra].
    + apply nothing.
  - both_at (4) ltac:(believed_by 0%nat 0) ltac:(believed_by 3%nat 0).
Qed.
