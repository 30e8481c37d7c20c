/** Types of columns, for tables.ts and its parts. Instants come out as numbers and go in as `Date`; JSON goes in as text. */
import type { ColumnType } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'

export type At = ColumnType<Instant, Date, Date>
export type AtOrNull = ColumnType<Instant | null, Date | null | undefined, Date | null>
export type Nano = ColumnType<NanoUsd, bigint, bigint>
export type NanoOrZero = ColumnType<NanoUsd, bigint | undefined, bigint>
export type NanoOrNull = ColumnType<NanoUsd | null, bigint | null | undefined, bigint | null>
export type Json<T> = ColumnType<T, string, string>
export type JsonOr<T> = ColumnType<T, string | undefined, string>
export type OrNull<T> = ColumnType<T | null, T | null | undefined, T | null>
export type Counted = ColumnType<number, number | undefined, number>
