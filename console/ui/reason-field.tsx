/** An operator's reason for a change. */
import type { ComponentProps } from 'react'
import { TextField } from './field.tsx'

export function ReasonField(props: Omit<ComponentProps<typeof TextField>, 'label'>) {
  return <TextField label="Reason" hint="Recorded in the audit log." {...props} />
}
