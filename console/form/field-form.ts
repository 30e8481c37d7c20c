/**
 * A form with fields of one operation. It lists the fields in their order; the contract defines everything else about
 * them, and the body.
 */
import { useState } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import { flatten, type Entries } from './entry.ts'
import { collect, valuesOf, type Body, type FieldValues } from './field.ts'
import { useCallForm, type CallFormOptions, type Form } from './use-form.ts'

export interface FieldForm<Op extends CallableId> extends Form<FieldValues<Op>> {
  readonly operation: Op
  readonly entries: Entries<Op>
}

export interface FieldFormOptions<Op extends CallableId> extends Pick<
  CallFormOptions<Op, FieldValues<Op>>,
  'refreshes' | 'input' | 'onDone' | 'check'
> {
  readonly fields: Entries<Op> | ((values: FieldValues<Op>) => Entries<Op>)
  /** The current record. Only changed fields are sent. */
  readonly before?: object | undefined
  readonly initial?: Partial<FieldValues<Op>> | undefined
  /** Adds parts of the body that have no field. */
  readonly body?: (body: Body<Op>, values: FieldValues<Op>) => object
}

export function useFieldForm<Op extends CallableId>(operation: Op, options: FieldFormOptions<Op>): FieldForm<Op> {
  const { fields, before, initial, body, ...call } = options
  const entriesOf = (values: FieldValues<Op>): Entries<Op> => (typeof fields === 'function' ? fields(values) : fields)
  const [first] = useState(() => ({ ...valuesOf(operation, before), ...initial }))
  const bodyOf = (values: FieldValues<Op>): object => {
    const collected = collect(operation, flatten(entriesOf(values)), values, before === undefined ? undefined : first)
    return body === undefined ? collected : body(collected as Body<Op>, values)
  }
  const form = useCallForm<Op, FieldValues<Op>>(operation, { ...call, initial: first, body: bodyOf as never })
  const unchanged = JSON.stringify(collect(operation, flatten(entriesOf(first)), first, first))
  const isDirty = form.isDirty || (before !== undefined && JSON.stringify(bodyOf(form.values)) !== unchanged)
  return { ...form, isDirty, operation, entries: entriesOf(form.values) }
}
