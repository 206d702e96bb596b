// Before anything is drawn: the theme that was chosen here, else the system's.
(() => {
  const chosen = localStorage.getItem("icefloe-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
