/** Every kind of notification: who gets it, and whether by e-mail. Plain data, so that commands load no schemas for it. */

interface KindEntry {
  /** `operator`: only keys with the scope `operator` see it. */
  readonly audience: 'account' | 'operator'
  readonly label: string
  /** Whether e-mail is on until the member chooses. The console is always on. */
  readonly email: boolean
}

export const notificationKinds = {
  balance_low: { audience: 'account', label: 'Balance low', email: true },
  balance_empty: { audience: 'account', label: 'Balance empty', email: true },
  auto_top_up: { audience: 'account', label: 'Automatic top-up', email: true },
  budget: { audience: 'account', label: 'Budget alerts', email: true },
  term_expiring: { audience: 'account', label: 'Reserved term expiring', email: true },
  rental_failed: { audience: 'account', label: 'Rental failed', email: true },
  rental_lost: { audience: 'account', label: 'Contact with a rental lost', email: false },
  rental_gpu: { audience: 'account', label: 'GPU of a rental broken', email: true },
  rental_interrupted: { audience: 'account', label: 'Interruption of a rental announced', email: true },
  rental_stuck: { audience: 'account', label: 'Rental stuck', email: false },
  rental_idle: { audience: 'account', label: 'Rental idle', email: true },
  rental_stopped: { audience: 'account', label: 'Rental stopped automatically', email: true },
  volume_problem: { audience: 'account', label: 'Problem with a volume', email: true },
  deployment_failed: { audience: 'account', label: 'Deployment or rollout stopped', email: true },
  deployment_starts: { audience: 'account', label: 'Replicas fail to start', email: true },
  deployment_budget: { audience: 'account', label: 'Hourly budget of a deployment reached', email: true },
  deployment_blocked: { audience: 'account', label: 'Replica could not be ordered', email: true },
  operator_stuck: { audience: 'operator', label: 'Stuck work', email: true },
  operator_engine: { audience: 'operator', label: 'Engine down', email: true },
  operator_payment: { audience: 'operator', label: 'Payment to look at', email: true },
  operator_ledger: { audience: 'operator', label: 'Ledger check failed', email: true },
} as const satisfies Readonly<Record<string, KindEntry>>
export type NotificationKind = keyof typeof notificationKinds
