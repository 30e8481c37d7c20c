/** Operator actions on a host. `domain/host.ts` defines the states they start from; each needs a reason. */
import { hostActions, type HostState } from '../../../src/domain/host.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import type { FleetHost } from './read.ts'

export type HostAction = keyof typeof hostActions

const texts: Readonly<Record<HostAction, { readonly verb: string; readonly effect: string }>> = {
  drain: { verb: 'Drain', effect: 'It accepts no new tenants. Current rentals continue.' },
  resume: { verb: 'Resume', effect: 'It accepts new tenants again.' },
  quarantine: {
    verb: 'Quarantine',
    effect: 'It accepts no new tenants until you release it. Current rentals continue.',
  },
  release: { verb: 'Release', effect: 'It leaves quarantine. Bare metal is cleaned and checked before it is sold.' },
  remove: { verb: 'Remove', effect: 'It leaves the fleet. To return, it has to join or be added again.' },
}

/** All actions; those that the state does not allow are disabled. */
export function HostActions({ host, onAct }: { host: FleetHost; onAct: (action: HostAction) => void }) {
  return (Object.keys(texts) as HostAction[]).map((action) => {
    const why = whyNot(host, action)
    return (
      <Button
        key={action}
        look={action === 'remove' ? 'danger' : 'secondary'}
        disabledReason={why}
        title={texts[action].effect}
        onClick={() => onAct(action)}
      >
        {texts[action].verb}
      </Button>
    )
  })
}

/** undefined: possible. */
function whyNot(host: FleetHost, action: HostAction): string | undefined {
  const from: readonly HostState[] = hostActions[action]
  // A host that waits for cleaning becomes ready after it.
  const state = host.state === 'cleaning_pending' ? 'ready' : host.state
  if (!from.includes(state)) return `It is ${state}`
  return action === 'remove' && host.tenants > 0 ? 'It still has tenants; drain it first' : undefined
}

interface HostActionDialogProps {
  readonly host: FleetHost
  readonly action: HostAction
  readonly onClose: () => void
}

export function HostActionDialog({ host, action, onClose }: HostActionDialogProps) {
  const { verb, effect } = texts[action]
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
