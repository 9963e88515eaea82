(* Three nodes, and the same with two more. *)
Require Import Lia.

Theorem opposite : (neighbours [1; 2; 3] [1; 2; 3; 4; 5] /\
  quorum [1; 2; 3] [1; 2] /\ quorum [1; 2; 3; 4; 5] [3; 4; 5]) /\ ~ meet [1; 2] [3; 4; 5].
Proof.
  unfold neighbours, quorum, meet. repeat split; simpl; auto; try (intros n; simpl; lia).
  1, 2: repeat constructor; simpl; lia.
  intros [n [A B]]. simpl in *. lia.
Qed.
