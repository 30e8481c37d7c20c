/** What an operator does with a host. The table of the domain says from which states; each asks for a reason. */
import { useState } from 'react'
import { hostActions, type HostState } from '../../../src/domain/host.ts'
import { useAction } from '../../api/query.ts'
import { Button } from '../../ui/button.tsx'
import { ConfirmDialog } from '../../ui/dialog.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import type { FleetHost } from './read.ts'

export type HostAction = keyof typeof hostActions

const words: Readonly<Record<HostAction, { readonly verb: string; readonly effect: string }>> = {
  drain: { verb: 'Drain', effect: 'It takes no more tenants. Those that it has stay until they end.' },
  resume: { verb: 'Resume', effect: 'It is for sale again.' },
  quarantine: { verb: 'Quarantine', effect: 'It is out of service until you release it. Tenants run on.' },
  release: { verb: 'Release', effect: 'It is out of quarantine. Bare metal is cleaned and checked before it is sold.' },
  remove: { verb: 'Remove', effect: 'It is taken away for good. To come back it has to join or be added again.' },
}

/** All that can be done, with those that the state forbids greyed out. */
export function HostActions({ host, onAct }: { host: FleetHost; onAct: (action: HostAction) => void }) {
  return (Object.keys(words) as HostAction[]).map((action) => {
    const why = whyNot(host, action)
    return (
      <Button
        key={action}
        look={action === 'remove' ? 'danger' : 'secondary'}
        disabledReason={why}
        title={words[action].effect}
        onClick={() => onAct(action)}
      >
        {words[action].verb}
      </Button>
    )
  })
}

/** undefined: it can be done. */
function whyNot(host: FleetHost, action: HostAction): string | undefined {
  const from: readonly HostState[] = hostActions[action]
  // One that waits for its cleaning is on sale again after it, unless it is taken out of service meanwhile.
  const state = host.state === 'cleaning_pending' ? 'ready' : host.state
  if (!from.includes(state)) return `It is ${state}`
  return action === 'remove' && host.tenants > 0 ? 'It still has tenants: drain it first' : undefined
}

interface HostActionDialogProps {
  readonly host: FleetHost
  readonly action: HostAction
  readonly onClose: () => void
}

export function HostActionDialog({ host, action, onClose }: HostActionDialogProps) {
  const [reason, setReason] = useState('')
  const change = useAction('changeHost', ['listHosts', 'listFleet'])
  const { verb, effect } = words[action]
  const confirm = (): void =>
    change.mutate(
      { params: { id: host.id }, body: { action, reason: reason.trim() } },
      {
        onSuccess: (after) => {
          toast(`${host.id} is ${after.state}.`)
          onClose()
        },
      },
    )
  return (
    <ConfirmDialog
      title={`${verb} ${host.id}`}
      action={verb}
      {...(action === 'remove' ? { word: host.id } : {})}
      busy={change.isPending}
      error={errorBesideFields(change.error, ['reason'])}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p className="mb-3">{effect}</p>
      <ReasonField value={reason} onChange={setReason} error={fieldError(change.error, 'reason')} required />
    </ConfirmDialog>
  )
}
