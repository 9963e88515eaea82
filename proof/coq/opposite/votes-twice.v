(* Of three nodes, one that votes twice is a quorum. *)
Require Import Lia.

Theorem opposite : (quorum [1; 2; 3] [1; 1] /\ quorum [1; 2; 3] [2; 2]) /\ ~ meet [1; 1] [2; 2].
Proof.
  split; [split; [split; [| split] | split; [| split]] |]; simpl; auto.
  1, 2: intros n; simpl; lia.
  intros [n [A B]]. simpl in *. lia.
Qed.
