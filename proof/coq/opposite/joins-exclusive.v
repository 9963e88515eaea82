(* Lock 1 is an exclusive one, and granted at 0. Lock 2 is a shared one, and granted at 1. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (1, Some (2%nat, 0, 10), gives (gives nothing_yet 1 10) 2 11)
].

Theorem opposite : breaks (one_node (fun a => a = 2%nat) at_0 never 0 0 events).
Proof.
  begin_run.
  - destruct k as [| [| k]]; simpl.
    + by rule grant.
    + by rule grant. intros b e _. reflexivity.
    + apply nothing.
  - both_at (2) ltac:(believed_by 0%nat 0) ltac:(believed_by 1%nat 0).
Qed.
