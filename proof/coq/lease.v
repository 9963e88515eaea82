(* Leases exclude. lease_rules.v has the rules, and says what the claims mean.

   The proof: two quorums have a node in common, which has said yes to both. Between the earlier yes and the later one
   the earlier holder's key stays: it has not expired as long as its holder believes, and is not released. Or the node
   loses it. Then it is in quarantine for as long as the holder believes, and gives nobody a key. *)
Require Import List Arith Rbase Lra Lia.
Require Import sets quorum lease_rules.
Local Open Scope R_scope.

(* Takes step k of node n apart, by rules. *)
Ltac by_rules w W n k :=
  let R := fresh "R" in
  pose proof (steps w W n k) as R;
  remember (state w n k) as before eqn:Before; remember (state w n (S k)) as after eqn:After;
  remember (answer w n k) as said eqn:Said;
  destruct R; subst; simpl in *.

(* What put has put. *)
Ltac by_put := repeat match goal with
  | H : context [Nat.eq_dec ?x ?y] |- _ => destruct (Nat.eq_dec x y); subst
  | |- context [Nat.eq_dec ?x ?y] => destruct (Nat.eq_dec x y); subst
  end.

Section Lease.
Variable w : world.
Hypothesis W : lawful w.
Hypothesis M : any_two_meet (counted w).

Lemma time_grows : forall n i j, (i <= j)%nat -> time w n i <= time w n j.
Proof.
  intros n i j H. induction H as [| j H IH]; [lra |].
  apply (Rle_trans _ _ _ IH). apply (one_after_the_other w W).
Qed.

Lemma let_go_for_good : forall a t u, has_let_go w a t -> t <= u -> has_let_go w a u.
Proof. unfold has_let_go. intros a t u. destruct (released w a); intros; lra. Qed.

(* While a holder believes, no node's clock comes as far as the ttl, counted from any instant since the round began. *)
Lemma clocks_within_ttl : forall a s u T, s <= u ->
  client_clock w a u - client_clock w a s < validity w T ->
  forall n y z, s <= y -> y <= z -> z <= u -> node_clock w n z - node_clock w n y < T.
Proof.
  intros a s u T Su Valid n y z Sy Yz Zu.
  pose proof (node_not_too_fast w W n y z Yz) as Node. pose proof (client_not_too_slow w W a s u Su) as Client.
  destruct (rates_not_negative w W) as [Rc [Rn Rm]].
  pose proof (factor_covers_rates w W) as F. pose proof (factor_below_one w W) as F1.
  unfold validity in Valid.
  set (c := client_rate w) in *. set (r := node_rate w) in *. set (f := factor w) in *.
  assert (A : (u - s) * (1 - c) < T * (1 - f)) by lra.
  assert (B : 0 <= (u - s) * (1 - c)) by (apply Rmult_le_pos; lra).
  assert (T0 : 0 < T).
  { destruct (Rlt_le_dec 0 T); auto. exfalso. assert (0 <= - T * (1 - f)) by (apply Rmult_le_pos; lra). lra. }
  assert (C : (z - y) * (1 + r) <= (u - s) * (1 + r)) by (apply Rmult_le_compat_r; lra).
  assert (D : (u - s) * (1 - c) * (1 + r) < T * (1 - f) * (1 + r)) by (apply Rmult_lt_compat_r; lra).
  assert (E : T * ((1 - f) * (1 + r)) <= T * (1 - c)).
  { apply Rmult_le_compat_l; [lra |].
    assert ((1 - f) * (1 + r) <= (1 - c - r) * (1 + r)) by (apply Rmult_le_compat_r; lra).
    assert (0 <= c * r) by (apply Rmult_le_pos; lra). assert (0 <= r * r) by (apply Rmult_le_pos; lra). lra. }
  assert (G : (u - s) * (1 + r) < T) by (apply Rmult_lt_reg_r with (1 - c); lra).
  lra.
Qed.

(* All keys that a node has are of shared holders, if there are two. Those of holders who have let go do not count. *)
Lemma keys_exclude : forall n k a b ea eb, a <> b ->
  entries (state w n k) a = Some ea -> entries (state w n k) b = Some eb ->
  ~ has_let_go w a (time w n k) -> ~ has_let_go w b (time w n k) -> shared w a /\ shared w b.
Proof.
  intros n k. induction k as [| k IH]; intros a b ea eb Differ A B Na Nb.
  - rewrite (empty w W) in A. discriminate.
  - assert (Na' : ~ has_let_go w a (time w n k)).
    { intro X. apply Na. apply (let_go_for_good a (time w n k)); auto. apply (one_after_the_other w W). }
    assert (Nb' : ~ has_let_go w b (time w n k)).
    { intro X. apply Nb. apply (let_go_for_good b (time w n k)); auto. apply (one_after_the_other w W). }
    clear Na Nb. by_rules w W n k.
    8: match goal with Kept : forall a e', entries _ a = Some e' -> _ |- _ =>
         destruct (Kept a ea A) as [| [ea' [A' _]]]; [contradiction |];
         destruct (Kept b eb B) as [| [eb' [B' _]]]; [contradiction |] end.
    all: by_put; try discriminate; try contradiction; eauto.
    all: match goal with Room : room _ _ _ |- _ =>
           first [destruct (Room _ _ A) | destruct (Room _ _ B)]; auto end.
Qed.

(* Until an attempt has succeeded, a key of it is one that a grant has set. *)
Lemma key_of_an_attempt : forall n k a e,
  entries (state w n k) a = Some e -> time w n k <= success w a -> ~ has_let_go w a (time w n k) ->
  exists x, begun w a <= x <= time w n k /\ node_clock w n x + ttl w a <= e.
Proof.
  intros n k. induction k as [| k IH]; intros a e A Early N.
  - rewrite (empty w W) in A. discriminate.
  - pose proof (one_after_the_other w W n k) as Next.
    assert (N' : ~ has_let_go w a (time w n k)) by (intro X; apply N; apply (let_go_for_good a (time w n k)); auto).
    assert (Go : (exists e', entries (state w n k) a = Some e' /\ e' <= e) ->
      exists x, begun w a <= x <= time w n (S k) /\ node_clock w n x + ttl w a <= e).
    { intros [e' [A' Less]]. destruct (IH a e' A' ltac:(lra) N') as [x [X Y]]. exists x. split; lra. }
    clear IH N. by_rules w W n k; by_put; try discriminate; try contradiction;
      try (apply Go; eexists; split; [eassumption | lra]).
    + inversion A; subst. exists (time w n k). split; lra.
    + inversion A; subst. apply Go. eexists. split; [eassumption | lra].
    + lra.
    + match goal with Kept : forall a e', entries _ a = Some e' -> _ |- _ =>
        destruct (Kept a e A) as [| [e' [A' [Same | After]]]]; [contradiction | |] end.
      * subst. apply Go. exists e'. split; auto. lra.
      * lra.
Qed.

(* A yes means that the node has the key, for at least the ttl, counted from some instant since the round began. *)
Lemma yes_means_a_key : forall n k a s T,
  answer w n k = Some (a, s, T) -> ~ has_let_go w a (time w n k) ->
  exists x e, s <= x <= time w n k /\ entries (state w n (S k)) a = Some e /\ node_clock w n x + T <= e.
Proof.
  intros n k a s T A N. pose proof (key_of_an_attempt n k a) as Key.
  by_rules w W n k; try discriminate; inversion A; subst; clear A.
  - exists (time w n k), e. by_put; [| contradiction]. repeat split; auto; lra.
  - destruct (Key e) as [x [X Y]]; auto. exists x, e. auto.
  - exists (time w n k), e'. by_put; [| contradiction]. repeat split; auto; lra.
  - exists (time w n k), e. by_put; [| contradiction]. repeat split; auto; lra.
Qed.

(* After step i, node n has lost its memory. Only after x it was seen again. *)
Definition forgetful (n : node) (i : nat) (x : R) (k : nat) : Prop :=
  (exists l, (i < l <= k)%nat /\ past (state w n l) = lost) /\
  (past (state w n k) = lost \/ exists y, x <= y <= time w n k /\ past (state w n k) = seen (node_clock w n y)).

(* What is so at step k, for as long as a's holder believes, after a yes of the node to a. The node still has the key
   of a, or has lost its memory since. All other keys are those of shared holders, beside a shared one. *)
Definition kept_or_forgotten (n : node) (i : nat) (a : lock) (x u T : R) (k : nat) : Prop :=
  ((exists e, entries (state w n k) a = Some e /\ node_clock w n x + T <= e) \/ forgetful n i x k) /\
  (forall b e, b <> a -> entries (state w n k) b = Some e -> ~ has_let_go w b u -> shared w b /\ shared w a).

(* A node that has lost its memory grants nothing for that time. *)
Lemma forgetful_does_not_vote : forall n i k a s T x u, (i < k)%nat -> answer w n i = Some (a, s, T) ->
  s <= x -> time w n k <= u ->
  (forall y z, s <= y -> y <= z -> z <= u -> node_clock w n z - node_clock w n y < T) ->
  forgetful n i x k -> ~ votes w n k (state w n k).
Proof.
  intros n i k a s T x u Ik A Sx Ku Within [[l [Il Lost]] [F | [y [Y F]]]] V; unfold votes in V; rewrite F in V; auto.
  destruct V as [most [All Over]]. specialize (All i l a s T Il Lost A).
  specialize (Within y (time w n k)). lra.
Qed.

(* A loss, or the first sight after it, makes a node forgetful; and it stays so. *)
Lemma forgetful_from_then : forall n i x k, (i < k)%nat -> x <= time w n k ->
  forgetful n i x k \/ past (state w n k) = lost \/ past (state w n (S k)) = lost -> forgetful n i x (S k).
Proof.
  intros n i x k Ik Xk Or. pose proof (one_after_the_other w W n k) as Next.
  destruct Or as [[[l [Il Lost]] F] | [Lost | Lost]].
  - split; [exists l; split; [lia | auto] |].
    by_rules w W n k; auto; destruct F as [F | [y [Y F]]]; auto;
      try (right; exists y; split; [lra | assumption]).
    all: right; exists (time w n k); split; [lra | reflexivity].
  - split; [exists k; split; [lia | auto] |].
    by_rules w W n k; auto. right. exists (time w n k). split; [lra | reflexivity].
  - split; [exists (S k); split; [lia | auto] | auto].
Qed.

Lemma kept_for_as_long : forall n i a s T x u e, answer w n i = Some (a, s, T) ->
  ~ has_let_go w a u -> s <= x <= time w n i ->
  entries (state w n (S i)) a = Some e -> node_clock w n x + T <= e ->
  (forall y z, s <= y -> y <= z -> z <= u -> node_clock w n z - node_clock w n y < T) ->
  forall j, (i < j)%nat -> time w n j <= u -> kept_or_forgotten n i a x u T j.
Proof.
  intros n i a s T x u e Yes N X Has Life Within j Ij. induction Ij as [| k Ik IH]; intro Ju.
  - split; [left; eauto |]. intros b eb Differ B Nb.
    assert (Not : forall c, ~ has_let_go w c u -> ~ has_let_go w c (time w n (S i))).
    { intros c Nc Y. apply Nc. apply (let_go_for_good c (time w n (S i))); auto. }
    apply (keys_exclude n (S i) b a eb e); auto.
  - pose proof (one_after_the_other w W n k) as Next. assert (Ku : time w n k <= u) by lra.
    pose proof (time_grows n i k ltac:(lia)) as Since.
    destruct (IH Ku) as [Key Others]. clear IH.
    pose proof (fun F => forgetful_does_not_vote n i k a s T x u ltac:(lia) Yes ltac:(lra) Ku Within F) as Abstains.
    pose proof (forgetful_from_then n i x k ltac:(lia) ltac:(lra)) as Forgets.
    assert (Not : forall c, ~ has_let_go w c u -> ~ has_let_go w c (time w n k)).
    { intros c Nc Y. apply Nc. apply (let_go_for_good c (time w n k)); auto. }
    pose proof (Within x (time w n k) ltac:(lra) ltac:(lra) Ku) as Alive.
    unfold kept_or_forgotten. by_rules w W n k.
    + (* nothing *)
      split; auto. destruct Key as [Key | F]; auto.
    + (* grant *)
      destruct Key as [[e1 [K1 L1]] | F]; [| exfalso; apply (Abstains F); assumption].
      split.
      * left. by_put; [congruence | eauto].
      * intros b eb Differ B Nb. by_put; eauto.
        match goal with Room : room _ _ _ |- _ => destruct (Room _ _ K1) end. auto.
    + (* again *)
      split; auto. destruct Key as [Key | F]; auto.
    + (* extend *)
      split.
      * destruct Key as [[e1 [K1 L1]] | F]; auto.
        left. by_put; eauto. eexists. split; eauto. replace e1 with e0 in * by congruence. lra.
      * intros b eb Differ B Nb. by_put; eauto.
    + (* repair *)
      destruct Key as [[e1 [K1 L1]] | F]; [| exfalso; apply (Abstains F); assumption].
      split.
      * left. by_put; [congruence | eauto].
      * intros b eb Differ B Nb. by_put; eauto.
        match goal with Room : room _ _ _ |- _ => destruct (Room _ _ K1) end. auto.
    + (* expire *)
      split.
      * destruct Key as [[e1 [K1 L1]] | F]; auto.
        left. by_put; eauto. exfalso. replace e1 with e0 in * by congruence. lra.
      * intros b eb Differ B Nb. by_put; eauto; discriminate.
    + (* release *)
      split.
      * destruct Key as [[e1 [K1 L1]] | F]; auto.
        left. by_put; eauto. exfalso. apply (Not _ N). auto.
      * intros b eb Differ B Nb. by_put; eauto. exfalso. apply (Not _ Nb). auto.
    + (* lose *)
      split; auto. intros b eb Differ B Nb.
      match goal with Kept : forall a e', entries _ a = Some e' -> _ |- _ =>
        destruct (Kept b eb B) as [Gone | [eb' [B' _]]] end; eauto.
      exfalso. apply (Not _ Nb). auto.
    + (* look *)
      split; auto.
Qed.

(* A node says yes to a, and later to b. If a's holder still believes then, and b's has not let go, both are shared. *)
Lemma later_yes_is_shared : forall n i j a s T b s' T' u, (i < j)%nat ->
  answer w n i = Some (a, s, T) -> answer w n j = Some (b, s', T') -> a <> b -> time w n j <= u ->
  ~ has_let_go w a u -> ~ has_let_go w b u ->
  client_clock w a u - client_clock w a s < validity w T -> shared w a /\ shared w b.
Proof.
  intros n i j a s T b s' T' u Ij A B Differ Ju Na Nb Valid.
  pose proof (time_grows n i j ltac:(lia)) as Later.
  assert (Na' : ~ has_let_go w a (time w n i)).
  { intro X. apply Na. apply (let_go_for_good a (time w n i)); auto; lra. }
  destruct (yes_means_a_key n i a s T A Na') as [x [e [X [Has Life]]]].
  pose proof (clocks_within_ttl a s u T ltac:(lra) Valid n) as Within.
  destruct (kept_for_as_long n i a s T x u e A Na X Has Life Within j Ij Ju) as [Key Others].
  pose proof (fun F => forgetful_does_not_vote n i j a s T x u Ij A ltac:(lra) Ju Within F) as Abstains.
  assert (Differ' : b <> a) by auto.
  by_rules w W n j; try discriminate; inversion B; subst; clear B.
  - destruct Key as [[e1 [K1 _]] | F]; [| exfalso; apply (Abstains F); assumption].
    match goal with Room : room _ _ _ |- _ => apply (Room a e1 K1) end.
  - destruct (Others b e0); auto.
  - destruct (Others b e0); auto.
  - destruct Key as [[e1 [K1 _]] | F]; [| exfalso; apply (Abstains F); assumption].
    match goal with Room : room _ _ _ |- _ => apply (Room a e1 K1) end.
Qed.

Theorem leases_do_exclude : leases_exclude w.
Proof.
  intros a b u [Na [s [T [q [Q [Yes Valid]]]]]] [Nb [s' [T' [q' [Q' [Yes' Valid']]]]]] Differ.
  destruct (M q q' Q Q') as [n [In_q In_q']].
  destruct (Yes n In_q) as [i [Iu A]]. destruct (Yes' n In_q') as [j [Ju B]].
  destruct (Nat.lt_trichotomy i j) as [First | [Same | First]].
  - apply (later_yes_is_shared n i j a s T b s' T' u); auto.
  - exfalso. subst. apply Differ. congruence.
  - destruct (later_yes_is_shared n j i b s' T' a s T u); auto.
Qed.

Theorem locks_do_exclude : locks_exclude w.
Proof.
  intros Nobody a b u A B. destruct (Nat.eq_dec a b) as [| Differ]; auto.
  exfalso. apply (Nobody a). apply (leases_do_exclude a b u A B Differ).
Qed.
End Lease.

(* For clients of one set, and for those of two neighbouring sets, each of which counts by its own. *)

Theorem leases_of_one_set_exclude : forall w set,
  lawful w -> (forall q, counted w q -> quorum set q) -> leases_exclude w /\ locks_exclude w.
Proof.
  intros w set W Q. assert (M : any_two_meet (counted w)) by (intros p q P R; apply (quorums_meet set); auto).
  split; [apply leases_do_exclude | apply locks_do_exclude]; auto.
Qed.

Theorem leases_of_neighbours_exclude : forall w small large, neighbours small large ->
  lawful w -> (forall q, counted w q -> of_either small large q) -> leases_exclude w /\ locks_exclude w.
Proof.
  intros w small large N W Q.
  assert (M : any_two_meet (counted w)) by (intros p q P R; apply (quorums_of_either_meet small large); auto).
  split; [apply leases_do_exclude | apply locks_do_exclude]; auto.
Qed.
