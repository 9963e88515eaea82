(* Attempt 2 is granted 1, before its start. Attempt 1 is granted 2, and is over when attempt 2 starts. *)
Definition events : script := [
  (Some (2, 1), key 2 1); (None, free 1); (Some (1, 2), key 1 2)].

Theorem opposite : breaks fences_in_order (one_node own (each 1 3 9) (each 3 4 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| i]]]; simpl.
    + by rule (grant _ _ 2 0 1).
    + by rule (clear _ _ (Some 2) 1).
    + by rule (grant _ _ 1 1 2).
    + apply nothing.
  - intro X. specialize (X 1 2 2 1). assert (2 < 1); [| lia]. apply X; [said_at 2 | said_at 0 | simpl; lia].
Qed.
