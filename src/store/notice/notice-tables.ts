/** The tables of schema/0025_cost_and_notifications.sql as types; see store/platform/tables.ts. */
import type { ColumnType, GeneratedAlways } from 'kysely'
import type { BudgetAction, BudgetScope } from '../../contract/budget.ts'
import type { CostService } from '../../contract/cost.ts'
import type { NotificationKind } from '../../contract/notification-kind.ts'
import type { At, AtOrNull, Counted, Json, Nano, OrNull } from '../platform/column.ts'

type Day = ColumnType<string, string, string>

export interface NoticeTables {
  /** Written by a trigger only. */
  ledger_day: {
    account_id: GeneratedAlways<string>
    day: GeneratedAlways<string>
    kind: GeneratedAlways<string>
    service: GeneratedAlways<CostService>
    rental_id: GeneratedAlways<number>
    volume_id: GeneratedAlways<number>
    api_key_id: GeneratedAlways<string>
    model: GeneratedAlways<string>
    amount_nano: Nano
    postings: GeneratedAlways<number>
  }
  account_spend: { account_id: string; month: Day; spent_nano: Nano }
  budget: {
    id: string
    account_id: string
    name: string
    scope: BudgetScope
    scope_value: string
    amount_nano: Nano
    alerts: number[]
    action: BudgetAction
    month: OrNull<string>
    alerted: Counted
    exceeded_at: AtOrNull
    created_at: At
    updated_at: AtOrNull
  }
  notification: {
    id: GeneratedAlways<bigint>
    account_id: OrNull<string>
    at: At
    kind: NotificationKind
    subject_kind: string
    subject_id: string
    data: Json<Record<string, unknown>>
    event_id: OrNull<bigint>
    mailed_at: AtOrNull
  }
  notification_mark: { account_id: string; person_id: string; read_up_to: bigint }
  notification_read: { account_id: string; person_id: string; notification_id: bigint }
  notification_choice: {
    account_id: string
    person_id: string
    kind: NotificationKind
    console: boolean
    email: boolean
  }
  mail_confirmation: { id: GeneratedAlways<bigint>; account_id: string; person_id: string; sent_at: At }
  mail: {
    id: string
    account_id: string
    person_id: string
    kind: NotificationKind
    notification_ids: bigint[]
    state: ColumnType<'pending' | 'sent' | 'failed', 'pending' | undefined, 'pending' | 'sent' | 'failed'>
    due_at: At
    attempts: Counted
    lease_token: OrNull<string>
    lease_until: AtOrNull
    last_error: OrNull<string>
    created_at: At
    ended_at: AtOrNull
  }
  operator_alert: { subject: string; kind: NotificationKind; created_at: At }
}
