(* The node loses everything at 1, and is taken as seen long ago. It abstains for 10 from then on. Lock 2 is granted
   at 3. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, None, forgets lost);
  (2, None, forgets (seen (-100)));
  (3, Some (2%nat, 0, 10), gives (forgets (seen (-100))) 2 13)
].

Theorem opposite : breaks (plain events).
Proof.
  begin_run.
  - destruct k as [| [| [| [| k]]]]; simpl.
    + by rule grant.
    + by rule lose.
    + by rule (look _ _ _ (forgets lost) (-100)).
    + by rule grant. exists 10. split; [| simpl; lra].
      intros [| [| [| [| j]]]] l a s T _ _ A; simpl in A; inversion A; lra.
    + apply nothing.
  - both_at (4) ltac:(believed_by 0%nat 0) ltac:(believed_by 3%nat 0).
Qed.
