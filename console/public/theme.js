/* Before the first paint: the theme that was chosen, so that nothing flashes. A file, since the page allows no inline scripts. */
const chosenTheme = localStorage.getItem('berth.theme')
if (chosenTheme === 'light' || chosenTheme === 'dark') document.documentElement.dataset.theme = chosenTheme
