/** A dialog with fields of one operation: it names the fields, and the contract defines everything else. */
import { useState, type ReactNode } from 'react'
import type { CallableId, Reply } from '../../src/client/client.ts'
import { TextField } from '../ui/field.tsx'
import { toast } from '../ui/toast.tsx'
import { FormDialog } from './dialog.tsx'
import { useFieldForm, type FieldFormOptions } from './field-form.ts'
import { Fields } from './fields.tsx'
import type { FieldValues } from './field.ts'

interface FieldDialogProps<Op extends CallableId> extends Omit<FieldFormOptions<Op>, 'onDone'> {
  readonly operation: Op
  readonly title: string
  /** The verb on the button: "Create key". */
  readonly action: string
  readonly look?: 'primary' | 'danger'
  readonly wide?: boolean
  readonly cancel?: string
  /** The word that must be typed first, for actions that cannot be undone. */
  readonly word?: string | undefined
  readonly disabledReason?: string | undefined
  /** Shown when it is done. */
  readonly done?: string | ((reply: Reply<Op>, values: FieldValues<Op>) => string)
  /** Absent: the dialog closes. */
  readonly onDone?: (reply: Reply<Op>) => void
  readonly onClose: () => void
  /** Shown above the fields. */
  readonly children?: ReactNode
}

export function FieldDialog<Op extends CallableId>(props: FieldDialogProps<Op>) {
  const { operation, title, action, look = 'primary', wide = false, cancel, word, done, onDone, onClose } = props
  const [typed, setTyped] = useState('')
  const form = useFieldForm(operation, {
    ...props,
    onDone: (reply, values) => {
      if (done !== undefined) toast(typeof done === 'string' ? done : done(reply, values))
      if (onDone === undefined) onClose()
      else onDone(reply)
    },
  })
  const unchanged = props.before !== undefined && !form.isDirty ? 'Nothing changed yet' : undefined
  const untyped = word !== undefined && typed !== word ? `Type ${word} first` : undefined
  return (
    <FormDialog
      title={title}
      wide={wide}
      form={form}
      action={action}
      look={look}
      disabledReason={props.disabledReason ?? untyped ?? unchanged}
      onClose={onClose}
      {...(cancel === undefined ? {} : { cancel })}
    >
      {props.children}
      <Fields form={form} wide={wide} />
      {word !== undefined && (
        <TextField label={`Type ${word} to confirm`} value={typed} onChange={(event) => setTyped(event.target.value)} />
      )}
    </FormDialog>
  )
}
