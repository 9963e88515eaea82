(* Attempt 1 is granted 5. Attempt 2 is granted 6, and a raise makes it 1. *)
Definition events : script := [
  (Some (1, 5), key 1 5); (None, free 5); (Some (2, 6), key 2 6); (Some (2, 1), key 2 1)].

Theorem opposite : breaks fences_in_order (one_node own (each 0 2 9) (each 1 4 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| [| i]]]]; simpl.
    + by rule (grant _ _ 1 0 5).
    + by rule (clear _ _ (Some 1) 5).
    + by rule (grant _ _ 2 5 6).
    + by rule (raise _ _ 2 6 1).
    + apply nothing.
  - intro X. specialize (X 1 2 5 1). assert (5 < 1); [| lia]. apply X; [said_at 0 | said_at 3 | simpl; lia].
Qed.
