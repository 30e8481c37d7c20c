/** What an operator does with a host. The table of the domain says from which states; each asks for a reason. */
import { hostActions, type HostState } from '../../../src/domain/host.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
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
  const { verb, effect } = words[action]
  const form = useCallForm('changeHost', {
    input: { params: { id: host.id } },
    refreshes: ['listHosts', 'listFleet'],
    initial: { reason: '', typed: '' },
    body: ({ reason }) => ({ action, reason }),
    onDone: (after) => {
      toast(`${host.id} is ${after.state}.`)
      onClose()
    },
  })
  const isConfirmed = action !== 'remove' || form.values.typed === host.id
  return (
    <FormDialog
      title={`${verb} ${host.id}`}
      form={form}
      action={verb}
      look={action === 'remove' ? 'danger' : 'primary'}
      disabledReason={isConfirmed ? undefined : `Type ${host.id} first`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">{effect}</p>
      <ReasonField {...form.text('reason')} />
      {action === 'remove' && <TextField label={`Type ${host.id} to confirm`} {...form.text('typed')} />}
    </FormDialog>
  )
}
