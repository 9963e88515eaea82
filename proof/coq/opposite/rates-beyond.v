(* The node's clock is faster than the clients' by half, and the drift factor is 0: at 20/3 the node's clock shows 10,
   and the key of lock 1 expires. Lock 2 is granted at 7. *)
Definition events : script := [
  (0, Some (1%nat, 0, 10), gives nothing_yet 1 10);
  (20 / 3, None, takes (gives nothing_yet 1 10) 1);
  (7, Some (2%nat, 0, 10), gives (takes (gives nothing_yet 1 10) 1) 2 21)
].

Theorem opposite : breaks (one_node nobody at_0 never 0 (1 / 2) events).
Proof.
  begin_run.
  - destruct k as [| [| [| k]]]; simpl.
    + by rule grant.
    + by rule expire.
    + by rule grant.
    + apply nothing.
  - both_at (9) ltac:(believed_by 0%nat 0) ltac:(believed_by 2%nat 0).
Qed.
