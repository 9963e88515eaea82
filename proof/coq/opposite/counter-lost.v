(* Attempt 1 is granted 1, the counter is lost with the key, and attempt 2 is granted 1. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (None, free 0); (Some (2, 1), key 2 1)].

Theorem opposite : breaks fences_unique (one_node own (each 0 2 9) (each 1 3 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| i]]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 2 0 1).
    + apply nothing.
  - intro X. specialize (X 1 2 1). discriminate X; [said_at 0 | said_at 2].
Qed.
