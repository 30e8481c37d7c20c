/** Operator actions on a host. `domain/host.ts` lists the states in which each is possible; each needs a reason. */
import { hostActions, type HostState } from '../../../src/domain/host.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { Button } from '../../ui/button.tsx'
import type { FleetHost } from './read.tsx'

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

/** A button for each action; actions that the state does not allow are disabled. */
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

/** Returns why an action is not possible. undefined: it is. */
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
  const isRemoval = action === 'remove'
  return (
    <FieldDialog
      operation="changeHost"
      input={{ params: { id: host.id } }}
      refreshes={['listHosts', 'listFleet']}
      title={`${verb} ${host.id}`}
      action={verb}
      look={isRemoval ? 'danger' : 'primary'}
      word={isRemoval ? host.id : undefined}
      fields={['reason']}
      body={(body) => ({ ...body, action })}
      done={(after) => `${host.id} is ${after.state}.`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">{effect}</p>
    </FieldDialog>
  )
}
