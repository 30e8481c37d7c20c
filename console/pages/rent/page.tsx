/** Virtual machines and bare metal of the house. What is chosen stands in the address, so that it can be passed on. */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { RentalType } from '../../../src/contract/rental.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { RentForm } from './form.tsx'
import { choose, wishOf, type Choices, type Option, type Wish } from './option.ts'
import { ReservationDialog } from './reservation.tsx'

const route = getRouteApi('/shell/rent')

const kinds = [
  { name: 'virtual-machine', label: 'Virtual machine' },
  { name: 'bare-metal', label: 'Bare metal' },
] as const satisfies ReadonlyArray<{ name: RentalType; label: string }>

export function RentPage() {
  const { kind = 'virtual-machine', ...wish } = route.useSearch()
  const navigate = route.useNavigate()
  const options = useCall('listRentalOptions')
  const choices = useChoices(options.data, kind, wish)
  // What stands above and between its fields is known before the form comes, so that nothing moves.
  const mayRead = useMay('compute:read')
  const keys = useCall('listSshKeys', {}, { enabled: mayRead })
  const terms = useCall('listReserveOptions', {}, { enabled: mayRead })
  const [isAsking, setAsking] = useState(false)
  const mayRent = useMay('compute:write')
  const change = (changed: Wish): void =>
    void navigate({ search: (before) => ({ ...before, ...changed }), replace: true, resetScroll: false })
  return (
    <Page
      intro="Virtual machines with some GPUs, or whole machines for yourself. One hour of the price is set aside when you order; you pay for the time it runs."
      actions={
        <Button onClick={() => setAsking(true)} disabledReason={mayRent ? undefined : missingScope('compute:write')}>
          Ask for a large reservation
        </Button>
      }
    >
      <Tabs
        label="Kind of machine"
        tabs={kinds}
        chosen={kind}
        onChoose={(name) => void navigate({ search: { kind: name }, replace: true, resetScroll: false })}
      >
        <Answer of={options} skeleton={<Skeleton rows={12} />}>
          {() => {
            if (keys.isLoading || terms.isLoading) return <Skeleton rows={12} />
            if (choices === undefined) return <NothingOffered kind={kind} />
            return <RentForm key={kind} kind={kind} choices={choices} onWish={change} />
          }}
        </Answer>
      </Tabs>
      {isAsking && <ReservationDialog onClose={() => setAsking(false)} />}
    </Page>
  )
}

/** What was shown stays chosen while it is offered: an offer that is read again makes nobody order something else. */
function useChoices(options: readonly Option[] | undefined, kind: RentalType, wish: Wish): Choices | undefined {
  const asked = JSON.stringify([kind, wish])
  const [shown, setShown] = useState<{ readonly asked: string; readonly wish: Wish }>()
  const choices = choose(options ?? [], kind, shown?.asked === asked ? shown.wish : wish)
  const now = choices === undefined ? undefined : wishOf(choices.chosen)
  const isNew = shown?.asked !== asked || JSON.stringify(shown.wish) !== JSON.stringify(now)
  if (now !== undefined && isNew) setShown({ asked, wish: now })
  return choices
}

function NothingOffered({ kind }: { kind: RentalType }) {
  return (
    <Empty
      title={kind === 'bare-metal' ? 'No bare metal is offered' : 'No virtual machines are offered'}
      action={<ButtonLink to="/marketplace">Look at the marketplace</ButtonLink>}
    >
      The operator has no machines of this kind on sale right now.
    </Empty>
  )
}
