/*
 * Before the first paint: the frame that the page will have, which is drawn while the code loads, and the theme that was
 * chosen, so that nothing flashes. A file, since the page allows no inline scripts.
 */
const root = document.documentElement
const isPublic = /^\/(sign-in|invitations|device|terms|access|confirmed)(\/|$)/.test(location.pathname)
root.dataset.frame = isPublic ? 'public' : 'shell'
const chosenTheme = localStorage.getItem('berth.theme')
if (chosenTheme === 'light' || chosenTheme === 'dark') root.dataset.theme = chosenTheme
if (localStorage.getItem('berth.navigation.narrow') === 'true') root.dataset.navigation = 'narrow'
