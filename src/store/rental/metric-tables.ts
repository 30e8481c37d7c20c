/** The tables of schema/0024_metrics.sql as types; see store/platform/tables.ts. */
import type { Generated } from 'kysely'
import type { At, AtOrNull } from '../platform/column.ts'

export interface MetricTables {
  rental_sample: { rental_id: number; node: number; at: At; data: Buffer }
  rental_summary: { rental_id: number; node: number; at: At; data: Buffer }
  metric_progress: { only_row: Generated<boolean>; summarized_until: AtOrNull }
  rental_log: { rental_id: number; sealed: string; created_at: At }
  rental_idle: { rental_id: number; idle_since: AtOrNull; seen_until: AtOrNull; notified_at: AtOrNull }
}
