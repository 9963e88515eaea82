(* Fences are unique and in order. fence_rules.v has the rules, and says what each of the claims means.

   The proof is that of docs/safety.md: two attempts have a node in common that has answered both; the node had two
   tokens, so there was a grant in between; a grant makes the counter larger, and nothing makes it smaller. *)
Require Import List Arith Lia.
Require Import sets quorum fence_rules.

(* Takes the step of node n at instant i apart, by rules. *)
Ltac by_rules w W i n :=
  let R := fresh "R" in
  pose proof (steps w W i n) as R;
  remember (state w i n) as before eqn:Before; remember (state w (S i) n) as after eqn:After;
  remember (answer w i n) as said eqn:Said;
  destruct R; subst; simpl in *.

Section Fences.
Variable w : world.
Hypothesis W : lawful w.
Hypothesis M : any_two_meet (counted w).

(* Nothing makes a counter smaller. *)
Lemma counter_never_falls : forall n i j, i <= j -> C (state w i n) <= C (state w j n).
Proof.
  intros n i j H. induction H as [| m H IH]; auto.
  apply (Nat.le_trans _ _ _ IH). by_rules w W m n; lia.
Qed.

(* An answer says what the node then has. *)
Lemma answer_is_true : forall n i a f,
  answer w i n = Some (a, f) -> L (state w (S i) n) = Some (token_of w a) /\ C (state w (S i) n) = f.
Proof.
  intros n i a f A. by_rules w W i n; try discriminate; inversion A; subst; auto.
Qed.

(* A node that has an attempt's token before its success has granted it: g is the instant of the grant. The counter grew
   then, and the key has been the attempt's since. *)
Lemma holder_was_granted : forall n a i,
  start w a <= i -> i <= success w a -> L (state w i n) = Some (token_of w a) ->
  exists g, start w a <= g < i /\ C (state w g n) + 1 <= C (state w i n) /\
    forall m, g < m <= i -> L (state w m n) = Some (token_of w a).
Proof.
  intros n a i H. induction H as [| i H IH]; intros Early Holds.
  - exfalso. exact (new w W a n Holds).
  - assert (Grown := counter_never_falls n i (S i) ltac:(lia)).
    destruct (option_map (Nat.eqb (token_of w a)) (L (state w i n))) as [[|] |] eqn:E.
    1: {
      assert (Held : L (state w i n) = Some (token_of w a)).
      { destruct (L (state w i n)); simpl in E; [| discriminate].
        inversion E as [E']. apply Nat.eqb_eq in E'. congruence. }
      destruct (IH ltac:(lia) Held) as [g [G [Less Since]]]. exists g. repeat split; try lia.
      intros m Hm. destruct (Nat.eq_dec m (S i)); subst; auto. apply Since. lia. }
    all: assert (Not : L (state w i n) <> Some (token_of w a)) by
      (intro X; rewrite X in E; simpl in E; rewrite ?Nat.eqb_refl in E; discriminate).
    all: exists i; split; [lia |]; split; [| intros m Hm; replace m with (S i) by lia; exact Holds].
    all: clear IH; by_rules w W i n; try congruence; try lia.
    all: inversion Holds as [Same]; apply (fresh w W) in Same; subst; lia.
Qed.

Theorem a_fence_is_a_number : fence_is_number w.
Proof.
  intros a f [q [Q Answers]].
  assert (Each : forall n, In n q -> 1 <= f /\ exists g i, start w a <= g /\ g <= i /\ i < success w a /\
    answer w i n = Some (a, f) /\ C (state w g n) <= f - 1 /\
    (forall m, g < m <= i -> L (state w m n) = Some (token_of w a))).
  { intros n Hn. destruct (Answers n Hn) as [i [Si [Ei A]]]. destruct (answer_is_true n i a f A) as [Holds Is].
    destruct (holder_was_granted n a (S i)) as [g [G [Less Since]]]; auto.
    split; [lia |]. exists g, i. repeat split; auto; try lia; intros m Hm; apply Since; lia. }
  split.
  - destruct (M q q Q Q) as [n [Hn _]]. apply (Each n Hn).
  - exists q. split; auto. intros n Hn. destruct (Each n Hn) as [_ [g [i [Sg [Gi [Ei [A [Less Since]]]]]]]].
    exists g, i. repeat split; auto; intros m Hm; apply Since; lia.
Qed.

Theorem a_block_is_numbers : block_is_numbers w.
Proof.
  intros a base f [q [Q Block]]. exists q. split; auto. intros n Hn.
  destruct (Block n Hn) as [i [Si [Ei [A Known]]]]. destruct (answer_is_true n i a f A) as [Holds Is].
  destruct Known as [Found | [[g [c [Sg [Gi [Found [Ag [Held Same]]]]]]] | Only]].
  - exists i, i. repeat split; auto; try lia; intros m Hm; lia.
  - destruct (answer_is_true n g a c Ag) as [_ Left].
    destruct (holder_was_granted n a i) as [h [H [Less Since]]]; auto; try lia.
    (* A grant after that of g would have made the counter larger. *)
    assert (h <= g).
    { destruct (Nat.le_gt_cases h g) as [| Later]; auto. exfalso.
      pose proof (counter_never_falls n (S g) h Later). lia. }
    exists g, i. repeat split; auto; try lia; intros m Hm; apply Since; lia.
  - destruct (holder_was_granted n a (S i)) as [h [H [Less Since]]]; auto; try lia.
    exists h, i. repeat split; auto; try lia; intros m Hm; apply Since; lia.
Qed.

(* What both theorems need: one attempt's numbers end where the other's begin, or before. If a was over when b began, a
   is the first of them. *)
Lemma numbers_do_not_overlap : forall a b base f base' f',
  a <> b -> has_numbers w a base f -> has_numbers w b base' f' ->
  f <= base' \/ (f' <= base /\ ~ success w a <= start w b).
Proof.
  intros a b base f base' f' Differ [qa [Qa A]] [qb [Qb B]].
  destruct (M qa qb Qa Qb) as [n [Na Nb]].
  destruct (A n Na) as [ga [ia [Sa [Ga [Ea [Aa [Ca Ha]]]]]]].
  destruct (B n Nb) as [gb [ib [Sb [Gb [Eb [Ab [Cb Hb]]]]]]].
  destruct (answer_is_true n ia a f Aa) as [La Fa]. destruct (answer_is_true n ib b f' Ab) as [Lb Fb].
  (* At no instant is the node of both. *)
  assert (Never : forall m, L (state w m n) = Some (token_of w a) -> L (state w m n) = Some (token_of w b) -> False).
  { intros m X Y. apply Differ. apply (fresh w W). congruence. }
  destruct (Nat.le_gt_cases (S ia) gb) as [First | Later].
  - left. pose proof (counter_never_falls n (S ia) gb First). lia.
  - destruct (Nat.le_gt_cases (S ib) ga) as [Second | Within].
    + right. pose proof (counter_never_falls n (S ib) ga Second). lia.
    + exfalso. destruct (Nat.lt_trichotomy ia ib) as [X | [X | X]].
      * apply (Never (S ia)); auto; apply Hb; lia.
      * subst. apply (Never (S ib)); auto.
      * apply (Never (S ib)); auto; apply Ha; lia.
Qed.

Theorem numbers_are_unique : numbers_unique w.
Proof.
  intros a b base f base' f' k A B K K'.
  destruct (Nat.eq_dec a b) as [| Differ]; auto. exfalso.
  destruct (numbers_do_not_overlap a b base f base' f' Differ A B); lia.
Qed.

Theorem numbers_are_in_order : numbers_in_order w.
Proof.
  intros a b base f base' f' k k' A B Over K K'.
  destruct (Nat.eq_dec a b) as [| Differ].
  - exfalso. subst. destruct B as [q [Q B]]. destruct (M q q Q Q) as [n [Hn _]].
    destruct (B n Hn) as [g [i [G [I [E _]]]]]. lia.
  - destruct (numbers_do_not_overlap a b base f base' f' Differ A B); lia.
Qed.

Theorem fences_are_unique : fences_unique w.
Proof.
  intros a b f A B. apply a_fence_is_a_number in A. apply a_fence_is_a_number in B.
  apply (numbers_are_unique a b (f - 1) f (f - 1) f f); try apply A; try apply B; lia.
Qed.

Theorem fences_are_in_order : fences_in_order w.
Proof.
  intros a b fa fb A B Over. apply a_fence_is_a_number in A. apply a_fence_is_a_number in B.
  apply (numbers_are_in_order a b (fa - 1) fa (fb - 1) fb fa fb); try apply A; try apply B; auto; lia.
Qed.
End Fences.

(* For clients of one set, and for those of two neighbouring sets, each of which counts by its own. *)

Theorem fences_of_one_set : forall w set,
  lawful w -> (forall q, counted w q -> quorum set q) -> fences_unique w /\ fences_in_order w.
Proof.
  intros w set W Q. assert (M : any_two_meet (counted w)) by (intros p q P R; apply (quorums_meet set); auto).
  split; [apply fences_are_unique | apply fences_are_in_order]; auto.
Qed.

Theorem fences_of_neighbours : forall w small large, neighbours small large ->
  lawful w -> (forall q, counted w q -> of_either small large q) -> fences_unique w /\ fences_in_order w.
Proof.
  intros w small large N W Q.
  assert (M : any_two_meet (counted w)) by (intros p q P R; apply (quorums_of_either_meet small large); auto).
  split; [apply fences_are_unique | apply fences_are_in_order]; auto.
Qed.
