(* Attempt 1 is granted 1, and its key goes. A repair gives the node to attempt 2, whose request is then
   answered with the same counter. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (None, free 1); (None, key 2 1); (Some (2, 1), key 2 1)].

Theorem opposite : breaks fences_unique (one_node own (each 0 0 9) (each 1 4 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| [| i]]]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (repair _ _ 2 1 1).
    + by rule (again _ _ 2 1).
    + apply nothing.
  - intro X. specialize (X 1 2 1). discriminate X; [said_at 0 | said_at 3].
Qed.
