(* Lock 1 is granted at 0, and its client reads the clock at 9. The key expires at 10, and lock 2 is granted. *)
Definition events : script := [
  (0, Some (1%nat, 9, 10), gives nothing_yet 1 10);
  (10, None, takes (gives nothing_yet 1 10) 1);
  (10, Some (2%nat, 10, 10), gives (takes (gives nothing_yet 1 10) 1) 2 20)
].

Theorem opposite : breaks (one_node nobody (fun a => match a with 1%nat => 9 | _ => 10 end) never 0 0 events).
Proof.
  begin_run.
  - destruct k as [| [| [| k]]]; simpl.
    + by rule grant.
    + by rule expire.
    + by rule grant.
    + apply nothing.
  - both_at (11) ltac:(believed_by 0%nat 9) ltac:(believed_by 2%nat 10).
Qed.
