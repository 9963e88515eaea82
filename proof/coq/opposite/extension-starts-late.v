(* Lock 1 is extended at 1, and its client reads the clock at 9. The key expires at 11, and lock 2 is granted. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, Some (1%nat, 9, 10), gives (gives nothing_yet 1 10) 1 11);
  (11, None, takes (gives (gives nothing_yet 1 10) 1 11) 1);
  (11, Some (2%nat, 11, 10), gives (takes (gives (gives nothing_yet 1 10) 1 11) 1) 2 21)
].

Theorem opposite : breaks (one_node nobody (fun a => match a with 1%nat => 0 | _ => 11 end) never 0 0 events).
Proof.
  begin_run.
  - destruct k as [| [| [| [| k]]]]; simpl.
    + by rule grant.
    + by rule extend.
    + by rule expire.
    + by rule grant.
    + apply nothing.
  - both_at (12) ltac:(believed_by 1%nat 9) ltac:(believed_by 3%nat 11).
Qed.
